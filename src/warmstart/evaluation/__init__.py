"""Evaluation: predictions, metrics of a run, and statistics on them."""
