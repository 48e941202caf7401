"""Scenario files: stories in a small command language, each command followed by what came of it.

    # A comment says what is going on.
    command argument argument
    ----
    one line of output
    another one

Blocks are separated by empty lines; a block without `----` is a comment. `play` runs the commands of a file on a stage
and gives the file again with what really came of them: equal to the file when all is well.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

RULE = "----"

Run = Callable[[str, Sequence[str]], Sequence[str]]
"""Carries out a command with its arguments; the lines of its output."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A paragraph of a scenario: comment lines, then perhaps a command with its output."""

    comment: tuple[str, ...]
    command: str = ""
    output: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = (*self.comment, self.command, RULE, *self.output) if self.command else self.comment
        return "\n".join(lines)


def parse(text: str) -> list[Block]:
    """The blocks of a scenario. Raises `ValueError` for a block that is not of the form above."""
    return [_parse_block(paragraph.split("\n")) for paragraph in text.strip("\n").split("\n\n") if paragraph.strip()]


def _parse_block(lines: list[str]) -> Block:
    comment = tuple(line for line in lines if line.startswith("#"))
    rest = lines[len(comment) :]
    if not rest:
        return Block(comment=comment)
    if len(rest) < 2 or rest[1] != RULE:
        raise ValueError(f"expected one command and {RULE} after it: {rest}")
    return Block(comment=comment, command=rest[0], output=tuple(rest[2:]))


def play(text: str, run: Run) -> str:
    """The scenario with the outputs that its commands have now."""
    return "\n\n".join(str(_play_block(block, run)) for block in parse(text)) + "\n"


def _play_block(block: Block, run: Run) -> Block:
    if not block.command:
        return block
    verb, *arguments = shlex.split(block.command)
    return replace(block, output=tuple(run(verb, arguments)))
