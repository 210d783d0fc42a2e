"""The command line: one file per command. Heavy libraries are imported only when a command runs."""
