"""Where warmstart stores what any run may use again: rows read once, and finished stages."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """The cache folder: $WARMSTART_CACHE, else `warmstart` in the user's cache folder (`~/.cache` on Linux)."""
    own = os.environ.get("WARMSTART_CACHE")
    return Path(own) if own else user_cache_path("warmstart", appauthor=False)
