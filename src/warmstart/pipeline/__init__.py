"""Running a recipe: its stages, with reading the data before and measuring after them."""
