"""The page to try models on: one file, the same for every server; it asks the server for what it shows."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files


@cache
def page() -> tuple[bytes, tuple[tuple[str, str], ...]]:
    """The page, and the headers that let it do no more than it does."""
    html = (files("warmstart.deploy.serve") / "page.html").read_text(encoding="utf-8")
    # The browser runs the page's own script and styles, by their checksums, and nothing else.
    own = {kind: _checksum(html, kind) for kind in ("script", "style")}
    policy = (
        f"default-src 'none'; script-src '{own['script']}'; style-src '{own['style']}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html.encode(), (("content-security-policy", policy), ("referrer-policy", "no-referrer"))


def _checksum(html: str, kind: str) -> str:
    found = re.search(rf"<{kind}>(.*?)</{kind}>", html, re.DOTALL)
    text = found.group(1) if found else ""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
