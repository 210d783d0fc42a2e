"""Baselines that take seconds and stand beside every fine-tuned model."""
