"""What is on disk: atomic writes, folders that are valid or absent, untrusted JSON and YAML, locks, the cache folder.

No other room publishes or records a file by itself, so a test can put another file system underneath.
"""
