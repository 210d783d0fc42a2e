"""The trainings a recipe is made of, and the reading and measuring around them."""
