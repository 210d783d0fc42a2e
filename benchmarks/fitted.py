"""What measurements of finished runs share: their encoder, and a run that is trained where it is not there yet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from common import ROOT, TINY, weights


def encoder(name: str, cache: Path) -> str:
    """The folder of an encoder; for a tiny sample, of one built in the cache."""
    if TINY:
        sys.path.insert(0, str(ROOT / "tests"))
        from tiny import save_tiny

        return str(save_tiny(cache / "tiny-encoder"))
    return weights(name)


def fit_once(folder: Path, progress: Any, **fields: Any) -> Path:
    """The folder of a run by these fields of a recipe, which is trained only if it has not ended there before."""
    import warmstart
    from warmstart.evaluation.run import finished_run

    if finished_run(folder) is None:
        warmstart.fit(out=folder, progress=progress, **fields)
    return folder
