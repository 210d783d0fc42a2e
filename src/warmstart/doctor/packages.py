"""Installed packages beside what warmstart asks for, and the extras that would add to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement

NAME = "warmstart"
OWN = ("dev", "docs", "browser")
"""Extras for those who work on warmstart itself."""


@dataclass(frozen=True)
class Package:
    """A package that warmstart asks for."""

    name: str
    wanted: str
    """Versions that will do, as `>=5.3`; empty for any."""
    found: str | None
    extra: str = ""
    """The extra that asks for it; empty where all of warmstart needs it."""

    @property
    def fits(self) -> bool:
        """Whether it is installed in a version that will do."""
        return self.found is not None and Requirement(f"{self.name}{self.wanted}").specifier.contains(
            self.found, prereleases=True
        )

    @property
    def repair(self) -> str:
        """What to type where it does not fit."""
        if self.extra:
            return f"pip install '{NAME}[{self.extra}]'"
        return f"pip install '{self.name}{self.wanted}'"


def packages(requirements: list[str] | None = None) -> list[Package]:
    """Every package that warmstart asks for, needed ones first, then extra by extra.

    Args:
        requirements: As package metadata says them; by default those of warmstart as it is installed.
    """
    asked = metadata.requires(NAME) or [] if requirements is None else requirements
    found = []
    for one in map(Requirement, asked):
        extra = _extra(one)
        if extra not in OWN:
            found.append(Package(one.name, str(one.specifier), _version(one.name), extra))
    return sorted(found, key=lambda one: (one.extra, one.name))


def _extra(requirement: Requirement) -> str:
    """The extra of `peft>=0.17; extra == 'lora'`."""
    found = re.search(r'extra == "([^"]+)"', str(requirement.marker))
    return found[1] if found else ""


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
