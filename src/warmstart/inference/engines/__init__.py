"""Engines: what computes a model's outputs. One file an engine; the predictor knows none of them by name."""
