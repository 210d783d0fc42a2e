"""Labelled text: read strictly, stored memory-mapped, split without leaks.

    schema        the columns that a task asks for
    source        where rows come from, and how the files are to be read
    formats/      one module per file format
    column_names  the columns of a file, and those that could be read but are not
    read          rows of a source, one at a time, every fault with its file and line
    table         the same rows on disk as Arrow, memory-mapped
    split         parts of a table, stratified, duplicates in one part
    check_tables  what is wrong with rows that could be read; the checks are in checks/
    fault_kinds   the table of all kinds of fault
    findings      remarks on the data, with file and line

Nothing about the data is dropped, cut, reordered or guessed without a finding or an error that says so.
"""
