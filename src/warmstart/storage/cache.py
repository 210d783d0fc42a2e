"""Where warmstart keeps what any run may use again: rows read once, and finished stages."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The cache's folder: $WARMSTART_CACHE, or `warmstart` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("WARMSTART_CACHE") or Path(base) / "warmstart")
