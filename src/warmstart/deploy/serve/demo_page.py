"""The page for trying models in a browser: one file, the same for every server, which asks the server for the rest."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from starlette.responses import HTMLResponse


def demo_page() -> HTMLResponse:
    """The page, with headers that allow it nothing beyond what it does."""
    html, policy = _content()
    return HTMLResponse(html, headers={"content-security-policy": policy, "referrer-policy": "no-referrer"})


@cache
def _content() -> tuple[str, str]:
    """The HTML, and the policy by which a browser runs the page's own script and styles and nothing else."""
    html = (files("warmstart.deploy.serve") / "demo_page.html").read_text(encoding="utf-8")
    script, style = _checksum(html, "script"), _checksum(html, "style")
    policy = (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html, policy


def _checksum(html: str, element: str) -> str:
    match = re.search(rf"<{element}>(.*?)</{element}>", html, re.DOTALL)
    text = match.group(1) if match else ""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
