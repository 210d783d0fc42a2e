"""Runs a recipe: reads the data, trains stage by stage, and evaluates the model."""
