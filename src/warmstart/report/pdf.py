"""A report as PDF, printed by an installed Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from warmstart.errors import MissingExtraError

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "msedge",
    "microsoft-edge",
)
MINUTES = 2


def find_browser() -> str | None:
    """The first Chromium in the PATH; None where there is none."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def print_pdf(page: Path) -> Path:
    """Print a page to a PDF beside it."""
    browser = find_browser()
    if browser is None:
        raise MissingExtraError(
            "--pdf prints with Chromium, and none is in the PATH; install chromium or google-chrome, "
            "or open the page in any browser and print it"
        )
    out = page.with_suffix(".pdf")
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-pdf-header-footer",
            f"--user-data-dir={profile}",
        ]
        if os.geteuid() == 0:  # its sandbox does not start as root
            command.append("--no-sandbox")
        command += [f"--print-to-pdf={out.resolve()}", page.resolve().as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES, check=False)
    if done.returncode or not out.is_file():
        reason = done.stderr.strip()[-300:]
        raise MissingExtraError(f"--pdf: {browser} wrote no file ({reason}); print the page by hand")
    return out
