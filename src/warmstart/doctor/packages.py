"""The packages that warmstart requires, with their installed versions, and its extras."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement

NAME = "warmstart"
OWN = ("dev", "docs", "browser", "notebooks")
"""Extras for developing warmstart itself."""


@dataclass(frozen=True)
class Package:
    """A package that warmstart requires."""

    name: str
    required: str
    """The versions that it requires, as `>=5.3`; empty for any."""
    installed: str | None
    extra: str = ""
    """The extra that requires it; empty where warmstart itself does."""

    @property
    def fits(self) -> bool:
        """Whether it is installed in a required version."""
        return self.installed is not None and Requirement(f"{self.name}{self.required}").specifier.contains(
            self.installed, prereleases=True
        )

    @property
    def repair(self) -> str:
        """The command that installs it."""
        if self.extra:
            return f"pip install '{NAME}[{self.extra}]'"
        return f"pip install '{self.name}{self.required}'"


def packages(requirements: list[str] | None = None) -> list[Package]:
    """Every package that warmstart requires, then those of each extra.

    Args:
        requirements: As in the metadata of a package; by default those of warmstart as it is installed.
    """
    lines = metadata.requires(NAME) or [] if requirements is None else requirements
    required = []
    for requirement in map(Requirement, lines):
        extra = _extra(requirement)
        if extra not in OWN:
            name = requirement.name
            required.append(Package(name, str(requirement.specifier), _version(name), extra))
    return sorted(required, key=lambda package: (package.extra, package.name))


def _extra(requirement: Requirement) -> str:
    """The extra of `peft>=0.17; extra == 'lora'`."""
    match = re.search(r'extra == "([^"]+)"', str(requirement.marker))
    return match[1] if match else ""


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
