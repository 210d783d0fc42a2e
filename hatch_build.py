"""The README as the package index shows it: links that lead into the repository are absolute there, or plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def for_the_index(text: str, source: str | None) -> str:
    """A README whose relative links begin with an address of the repository.

    Args:
        source: The address in `[project.urls]`; without one, links become their text and pictures their description.
    """

    def absolute(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        if not source:
            return f"*{words}*" if picture else words
        return f"{picture}[{words}]({source.rstrip('/')}/{'raw' if picture else 'blob'}/main/{target})"

    # What is run or only shown is for our tests to know.
    return re.sub(r"^(```\w+) \{[^}]*\}$", r"\1", _LINK.sub(absolute, text), flags=re.M)


class ReadmeHook(MetadataHookInterface):
    """Puts the README into the package's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called when a package is built."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_the_index(text, source)}
