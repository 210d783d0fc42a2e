"""A run told: the report, one HTML file, and the model card."""
