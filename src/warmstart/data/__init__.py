"""Labelled text: read strictly, stored memory-mapped, split without leaks.

    source     where rows come from and how the file is to be read
    read       rows of a source, one at a time, every fault named by file and line
    table      the same rows on disk as Arrow, memory-mapped
    split      parts of a table, stratified, duplicates kept on one side
    check      what is wrong with rows that could be read; its parts are in checks/
    faults     the table of all kinds of fault
    findings   what was seen on the way, with file and line

Nothing about the data is dropped, cut, reordered or guessed without a finding or an error that says so.
"""
