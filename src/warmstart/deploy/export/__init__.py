"""Exports: a run's model for engines and servers other than PyTorch's."""
