"""Estimators for scikit-learn: a run behind `fit` and `predict`, for pipelines, cross-validation and grid search."""

from warmstart.estimators.text_estimators import TextClassifier, TextScorer

__all__ = ["TextClassifier", "TextScorer"]
