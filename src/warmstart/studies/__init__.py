"""Studies: methods measured on the same rows, over sets, sizes and seeds, and written into a page."""
