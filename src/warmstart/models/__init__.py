"""Pretrained encoders: loaded safely, seen as layers, and given heads."""
