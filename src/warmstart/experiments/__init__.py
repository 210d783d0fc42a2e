"""Experiments: a recipe repeated over seeds and variants, and what may be said of the difference."""
