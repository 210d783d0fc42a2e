"""The report of a run, as one HTML file, and its model card."""
