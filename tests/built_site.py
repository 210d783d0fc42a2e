"""The site as it is now."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def built_site(folder: Path) -> Path:
    """The folder of the built site: `site/` if it is newer than all it is made from, else a new build in `folder`."""
    index = ROOT / "site" / "search" / "search_index.json"
    sources = [ROOT / "mkdocs.yml", ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py")]
    sources += [path for path in (ROOT / "docs").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    if index.exists() and index.stat().st_mtime >= max(path.stat().st_mtime for path in sources):
        return ROOT / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder
