"""What rules decided, as the screen, the log and the report say it."""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.evaluation.records.training import RuleRecord


def list_rules(rules: Sequence[RuleRecord]) -> str:
    """Each field that a rule decided, with its value and the reason."""
    return "; ".join(f"{rule.sentence} since {rule.reason}" for rule in rules)
