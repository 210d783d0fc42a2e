"""What is looked for in rows that could be read: texts, answers, and rows that are too alike.

sightings    where each kind was seen, told as one finding a kind
characters   what a text may hold that was hardly meant, as patterns
texts        odd characters, empty words, lengths
answers      labels that are nearly another, rare or suspicious; scores
spans        answers with their places
twins        rows with the same text, inside a part and across parts
    ids          rows that have one id
"""
