"""File formats, one module each; every reader yields the values exactly as they are written.

`delimited` and `jsonl` parse record by record, a broken one among them, for training and for labelling alike: training
refuses the file at the first fault, labelling sets the record aside and continues.
"""
