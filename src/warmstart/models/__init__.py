"""Pretrained encoders: safe loading, the layer map, pooling and heads."""
