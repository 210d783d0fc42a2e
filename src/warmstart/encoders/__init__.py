"""Encoders: how a pretrained network is loaded, seen as layers, and pooled into vectors."""
