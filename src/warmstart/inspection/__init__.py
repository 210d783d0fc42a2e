"""Inspection of encoders: what they know, and how similar two of them are. Nothing here trains a model."""
