"""Trainer callbacks, each usable with any transformers.Trainer."""
