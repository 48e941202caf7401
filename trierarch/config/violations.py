"""What a check says about an object: `Violation` keeps it out of force, `Caution` does not. Paths start at the root."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that the object breaks: it is rejected."""

    path: str
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Caution:
    """Something that is probably not meant so: the object is in force."""

    path: str
    reason: str
    hint: str = ""


Complaints: TypeAlias = Iterator[Violation | Caution]
"""What a check yields, in the order of the document."""
