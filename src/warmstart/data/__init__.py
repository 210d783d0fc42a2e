"""Labelled text: read strictly, stored memory-mapped, split without leaks.

    source     where rows come from and how the file is to be read
    read       rows of a source, one at a time, every fault named by file and line
    table      the same rows on disk as Arrow, memory-mapped
    split      parts of a table, stratified, duplicates kept on one side
    findings   what was seen on the way that is no fault

Nothing about the data is dropped, cut, reordered or guessed without a finding or an error that says so.
"""
