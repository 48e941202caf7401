"""Decision tables: rows that are tried in their order, of which the first that holds decides.

The rules of both dialects are written so in xds-server.md (§6.4, §6.9), with the remark "in this exact order", and stay
readable as rows with the numbers that they have there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from protocol.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from protocol.xds.subscription import Outcome

Turn = TypeVar("Turn")
"""What is decided about: a request beside the watch that it meets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(Generic[Turn]):
    """A row: its number in the specification, when it holds, and what it does."""

    number: str
    holds: Callable[[Turn], bool]
    step: Callable[[Turn], Outcome]


def decide(cases: Sequence[Case[Turn]], turn: Turn) -> Case[Turn]:
    """The first row that holds. Raises `LocalError` if none does: a table must end with one that always holds."""
    for case in cases:
        if case.holds(turn):
            return case
    raise LocalError("no case holds")
