"""Deployment: ONNX exports, an HTTP server, and labelling a corpus on a cluster."""
