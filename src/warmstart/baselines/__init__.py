"""Baselines that take seconds, to compare a fine-tuned model with."""
