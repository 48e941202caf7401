"""Whether an expression is one that RE2 (Envoy's and Go's engine) accepts. It is never matched with here.

Python's own compiler checks the structure, after what only RE2 has is replaced by something that Python reads; what
only Python has is refused before. Where the two disagree in other ways it passes, and Envoy has the last word.
"""

from __future__ import annotations

import re

MAX_REPEAT = 1000

_ONLY_PYTHON = (
    (r"\(\?[=!]", "looking ahead is not possible"),
    (r"\(\?<[=!]", "looking behind is not possible"),
    (r"\(\?>", "atomic groups are not possible"),
    (r"\(\?\(", "conditional groups are not possible"),
    (r"\(\?#", "comments are not possible"),
    (r"\(\?P=", "references to groups are not possible"),
    (r"(?<!\\)(?:\\\\)*\\[1-9]", "references to groups are not possible"),
    (r"(?<!\\)(?:\\\\)*[*+?][*+]", "one repetition follows another"),
)
_ONLY_RE2 = (
    (r"\\Q.*?(?:\\E|$)", "a"),
    (r"\\[pP](?:\{\^?\w+\}|\w)", r"\\w"),
    (r"\[:\^?\w+:\]", "a"),
    (r"\\x\{0*[0-9a-fA-F]{1,2}\}", "a"),  # Envoy matches bytes
    (r"\\z", r"\\Z"),
    (r"\\C", "."),
    (r"\(\?<(\w+)>", r"(?P<\1>"),
    (r"\(\?[imsU]*(?:-[imsU]+)?\)", ""),
    (r"\(\?[imsU]*(?:-[imsU]+)?:", "(?:"),
)

_TOKEN = re.compile(r"\\x\{[0-9a-fA-F]+\}|\\.|\{(\d+)(?:,(\d*))?\}|.", re.DOTALL)
"""An escape, a number of repetitions, or a letter."""


def fault_of_regex(expression: str) -> str:
    """What is wrong with the expression, or "" if nothing is."""
    bare = re.sub(r"\\Q.*?(?:\\E|$)", "", expression, flags=re.DOTALL)
    bare = re.sub(r"(?<!\\)\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]", "a", bare)
    for pattern, reason in _ONLY_PYTHON:
        if re.search(pattern, bare):
            return reason
    if _most_repetitions(bare) > MAX_REPEAT:
        return f"repeated more than {MAX_REPEAT} times"
    for pattern, stand_in in _ONLY_RE2:
        expression = re.sub(pattern, stand_in, expression, flags=re.DOTALL)
    try:
        re.compile(expression)
    except (re.error, OverflowError, RecursionError) as fault:
        return str(fault)
    return ""


def _most_repetitions(bare: str) -> int:
    """How often anything is repeated at most; a repetition within another multiplies, as RE2 counts."""
    inside, group = [1], 1
    for token in _TOKEN.finditer(bare):
        match token[0]:
            case "(":
                inside.append(1)
                continue
            case ")" if len(inside) > 1:
                group = inside.pop()
            case _ if token[1]:
                group *= max(int(count[:6]) for count in token.groups() if count)
            case _:
                group = 1
        inside[-1] = max(inside[-1], group)
    return max(inside)
