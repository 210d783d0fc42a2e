"""SQuAD's nested files: read as rows, and what is wrong in them is told by row and question."""
