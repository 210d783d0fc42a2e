"""What a text may hold that was hardly meant: one pattern a kind, for Arrow's engine (RE2), which reads them all."""

from __future__ import annotations

import re
from dataclasses import dataclass

CYRILLIC = "\u0400-\u04ff"
_TAGS = "a|b|i|u|p|br|hr|div|span|em|strong|li|ul|ol|table|tr|td|th|img|h[1-6]|font|script|style|sup|sub|blockquote"
_NOTHING = r"na|n/a|#n/a|null|\(null\)|nan|none|nil|undefined|<na>"


@dataclass(frozen=True)
class Pattern:
    """A kind, how it looks, and how it is told; `part`: what stands around the match is shown, not the text's start."""

    kind: str
    regex: str
    words: str
    part: bool = True

    def around(self, text: str) -> str:
        """Give the match with what stands around it."""
        found = re.search(self.regex, text) if self.part else None
        if found is None:
            return text
        start, end = max(found.start() - 15, 0), found.end() + 15
        return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


ANY = (
    Pattern("text-na", rf"(?i)^\s*(?:{_NOTHING})\s*$", "is a word for nothing, kept as text", part=False),
    Pattern("text-short", r"(?s)^\s*\S\s*$", "is a single character", part=False),
    Pattern("text-no-letters", r"^[^\pL]*$", "has no letter", part=False),
    Pattern("text-url", r"(?i)^\s*(?:https?://|www\.)\S+\s*$", "is an address alone", part=False),
    Pattern("text-quoted", r'(?s)^"(?:[^"]|"")*"$', "stands in quotes as a whole", part=False),
    Pattern("text-space", r"^\s|\s$", "starts or ends with white space, which is kept", part=False),
    Pattern("control", r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]", "holds a control character"),
    Pattern("html-tag", rf"(?i)</?(?:{_TAGS})(?:\s[^<>]*)?/?>", "holds an HTML tag"),
    Pattern("html-entity", r"&(?:[a-zA-Z]{2,8}[0-9]{0,2}|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});", "holds an HTML entity"),
    Pattern("escape", r"\\[nrt](?:[^a-z]|$)|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}", "holds an escape left as text"),
)
"""Looked for in every text."""

NON_ASCII = (
    # Joiners belong between emoji and in scripts of their own, but not behind a Latin letter.
    Pattern("zero-width", "[\u200b\u2060\ufeff\u180e]|[A-Za-z][\u200c\u200d]", "holds a character without width"),
    Pattern("soft-hyphen", "\u00ad", "holds a soft hyphen"),
    Pattern("replacement", "\ufffd", "holds U+FFFD, left where a character could not be decoded"),
    Pattern("private-use", "[\ue000-\uf8ff\U000f0000-\U0010fffd]", "holds a character for private use"),
    Pattern("noncharacter", "[\ufdd0-\ufdef\ufffe\uffff]", "holds a code point that is no character"),
    Pattern("mojibake", "[ÃÂ][\u0080-\u00bf]|â€|â\u0080|ï¿½|ã[‚ƒ]", "looks like UTF-8 decoded as something else"),
    Pattern("mixed-script", f"[A-Za-z][{CYRILLIC}]|[{CYRILLIC}][A-Za-z]", "mixes Latin and Cyrillic letters in a word"),
    Pattern("line-separator", "[\u0085\u2028\u2029]", "holds a line end that hardly any program shows"),
)
"""Looked for where a text is not plain ASCII."""

BIDI = Pattern("bidi", "[\u202a-\u202e\u2066-\u2069]", "changes the writing direction and does not close that")
HIDDEN = re.compile("[\x01-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\uffff]")
"""What no label should hold."""
NOTHING = re.compile(rf"(?i)\s*(?:{_NOTHING})\s*")


def unclosed(text: str) -> bool:
    """Whether a change of writing direction is opened and not closed in its line, or closed without being opened."""
    for line in text.split("\n"):
        embeddings = isolates = 0
        for character in line:
            if character in "\u202a\u202b\u202d\u202e":
                embeddings += 1
            elif character in "\u2066\u2067\u2068":
                isolates += 1
            elif character == "\u202c":
                embeddings -= 1
            elif character == "\u2069":
                isolates -= 1
            if embeddings < 0 or isolates < 0:
                return True
        if embeddings or isolates:
            return True
    return False
