"""Checks of rows that could be read: texts, answers, and rows that are too similar.

collector    where each kind of finding occurs, reported as one finding per kind
characters   what a text may contain that was hardly intended, as patterns
texts        odd characters, placeholders such as NA, lengths
answers      labels that are nearly another, rare or suspicious; scores
spans        answers with their positions
relevance    queries without a relevant document
duplicates   rows with the same text, within a part and across parts
ids          rows that share an id
"""
