"""Files and folders: atomic writes, folders that are complete or absent, untrusted JSON and YAML, locks, the cache.

No other package publishes or records a file by itself, so a test can put another file system underneath.
"""
