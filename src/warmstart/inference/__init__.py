"""Inference: predictions and embeddings from a finished model, without any training code."""
