"""Experiments: a recipe repeated over seeds and variants, searched, and compared."""
