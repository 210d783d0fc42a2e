"""The labels in the answer of a row, whatever form it has."""

from __future__ import annotations

from typing import Any


def labels_of(answer: Any) -> list[str]:
    """The label, those of a multi-label answer, or those of its entities; empty where the answer has none."""
    if isinstance(answer, str):
        return [answer]
    if isinstance(answer, list):
        return [item["label"] if isinstance(item, dict) else item for item in answer if _has_label(item)]
    return []


def _has_label(item: object) -> bool:
    return isinstance(item, str) or (isinstance(item, dict) and "label" in item)
