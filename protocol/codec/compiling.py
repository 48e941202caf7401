"""Turning lines of source into functions."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from betterproto2 import Message

    Namespace = dict[str, object]


def indent(lines: Iterable[str]) -> list[str]:
    """The same lines, one level deeper."""
    return [f"    {line}" for line in lines]


def compile_function(name: str, message: type[Message], lines: Iterable[str], namespace: Namespace) -> None:
    """Define in `namespace` what the lines define. Tracebacks and profilers show the lines and the message's name."""
    source = "\n".join(lines)
    filename = f"<{name} {message.__module__}.{message.__name__}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), namespace)


def defer(namespace: Namespace, name: str, make: Callable[[], Callable[..., object]]) -> None:
    """Define `name` as a function that is made when it is first called, and from then on called directly.

    Messages refer to hundreds of others, of which a program meets few, and some to themselves.
    """

    def first_call(*arguments: object) -> object:
        made = namespace[name] = make()
        return made(*arguments)

    namespace[name] = first_call
