"""What a text may contain that was hardly intended: one pattern per kind, for Arrow's fast engine (RE2)."""

from __future__ import annotations

import re
from dataclasses import dataclass

CYRILLIC = "\u0400-\u04ff"
_TAGS = "a|b|i|u|p|br|hr|div|span|em|strong|li|ul|ol|table|tr|td|th|img|h[1-6]|font|script|style|sup|sub|blockquote"
_MISSING = r"na|n/a|#n/a|null|\(null\)|nan|none|nil|undefined|<na>"

# The last two code points of each of the 17 planes, and 32 more, stand for nothing in any text.
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17))


@dataclass(frozen=True)
class Pattern:
    """A kind of finding, its pattern, and its description; `part`: the match is shown, not the text's start."""

    kind: str
    regex: str
    description: str
    part: bool = True

    def excerpt(self, text: str) -> str:
        """The match with some characters around it."""
        match = re.search(self.regex, text) if self.part else None
        if match is None:
            return text
        start, end = max(match.start() - 15, 0), match.end() + 15
        return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


ANY = (
    Pattern("text-na", rf"(?i)^\s*(?:{_MISSING})\s*$", "is a placeholder (missing value?), kept as text", part=False),
    Pattern("text-short", r"(?s)^\s*\S\s*$", "is a single character", part=False),
    Pattern("text-no-letters", r"^[^\pL]*$", "has no letter", part=False),
    Pattern("text-url", r"(?i)^\s*(?:https?://|www\.)\S+\s*$", "is only a web address", part=False),
    Pattern("text-quoted", r'(?s)^"(?:[^"]|"")*"$', "is in quotes as a whole", part=False),
    Pattern("text-space", r"^\s|\s$", "starts or ends with whitespace, which is kept", part=False),
    Pattern("control", r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]", "contains a control character"),
    Pattern("html-tag", rf"(?i)</?(?:{_TAGS})(?:\s[^<>]*)?/?>", "contains an HTML tag"),
    Pattern("html-entity", r"&(?:[a-zA-Z]{2,8}[0-9]{0,2}|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});", "contains an HTML entity"),
    Pattern("escape", r"\\[nrt](?:[^a-z]|$)|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}", "contains an unresolved escape"),
)
"""Searched for in every text."""

NON_ASCII = (
    # Joiners belong between emoji and in some scripts, but not after a Latin letter.
    Pattern("zero-width", "[\u200b\u2060\ufeff\u180e]|[A-Za-z][\u200c\u200d]", "contains a zero-width character"),
    Pattern("soft-hyphen", "\u00ad", "contains a soft hyphen"),
    Pattern("replacement", "\ufffd", "contains U+FFFD, left where a character could not be decoded"),
    Pattern(
        "private-use", "[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]", "contains a private-use character"
    ),
    Pattern("noncharacter", f"[{_NONCHARACTERS}]", "contains a code point that is not a character"),
    Pattern("mojibake", "[ÃÂ][\u0080-\u00bf]|â€|â\u0080|ï¿½|ã[‚ƒ]", "looks like UTF-8 decoded as something else"),
    Pattern("mixed-script", f"[A-Za-z][{CYRILLIC}]|[{CYRILLIC}][A-Za-z]", "mixes Latin and Cyrillic letters in a word"),
    Pattern("line-separator", "[\u0085\u2028\u2029]", "contains a line separator that most programs do not show"),
)
"""Searched for in texts that are not plain ASCII."""

BIDI = Pattern("bidi", "[\u202a-\u202e\u2066-\u2069]", "changes the writing direction and does not change it back")
HIDDEN = re.compile("[\x01-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\uffff]")
"""What no label should contain."""
PLACEHOLDER = re.compile(rf"(?i)\s*(?:{_MISSING})\s*")


def unclosed(text: str) -> bool:
    """Whether a change of writing direction is not undone in its line, or undone without being made."""
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
