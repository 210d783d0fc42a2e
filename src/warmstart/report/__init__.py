"""The report of a run, one HTML file, and its model card."""
