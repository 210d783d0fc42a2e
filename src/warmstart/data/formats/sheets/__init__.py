"""Rows of spreadsheets: one named sheet of an .xlsx or .ods file, cells as they are shown, formulas never run."""
