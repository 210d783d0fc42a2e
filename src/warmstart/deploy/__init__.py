"""Models in use: exports, an HTTP server, and a corpus labelled on a cluster."""
