"""Loads as templates: the few words of Go's template language that they use, and no others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ACTION = re.compile(r"(\s*)\{\{(-?)\s*(.*?)\s*\}\}")
_RANGE = re.compile(r"range (\$\w+) := until (\S+)")

Numbers = dict[str, int]
"""What names stand for: fields such as `.Services`, and the counters of loops."""


def render(text: str, numbers: Numbers) -> str:
    """The text with its loops written out. Raises KeyError for a word that is not known here."""
    everywhere = {f"${name}": number for name, number in numbers.items()}  # as one says it within a loop
    return "".join(_render(_Pieces(text), numbers | everywhere))


class _Pieces:
    """A template cut into text and actions; `at` is the place of the next piece."""

    def __init__(self, text: str) -> None:
        self.items: list[tuple[str, str]] = []
        self.at = 0
        end = 0
        for match in _ACTION.finditer(text):
            space, trims, action = match.groups()
            self.items.append((text[end : match.start()] + ("" if trims else space), action))
            end = match.end()
        self.items.append((text[end:], ""))


def _render(pieces: _Pieces, numbers: Numbers) -> Iterator[str]:
    """Up to the end of the loop that one is in, or of the text."""
    while pieces.at < len(pieces.items):
        text, action = pieces.items[pieces.at]
        pieces.at += 1
        yield text
        if action == "end":
            return
        loop = _RANGE.fullmatch(action)
        if loop is not None:
            yield from _repeat(pieces, loop[1], loop[2], numbers)
        elif action:
            yield str(_value(action, numbers))


def _repeat(pieces: _Pieces, counter: str, limit: str, numbers: Numbers) -> Iterator[str]:
    start = pieces.at
    for number in range(numbers[limit]):
        pieces.at = start
        yield from _render(pieces, {**numbers, counter: number})


def _value(action: str, numbers: Numbers) -> int:
    match action.split():
        case [name]:
            return numbers[name]
        case ["div", left, right]:
            return _number(left, numbers) // _number(right, numbers)
        case ["mod", left, right]:
            return _number(left, numbers) % _number(right, numbers)
        case _:
            raise KeyError(action)


def _number(word: str, numbers: Numbers) -> int:
    return int(word) if word.isdecimal() else numbers[word]
