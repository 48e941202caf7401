"""Which expressions RE2 has: where it and Python differ."""

from __future__ import annotations

import pytest

from trierarch.config.regex import fault_of_regex


@pytest.mark.parametrize(
    "expression",
    [
        "a.*",
        r"^/x/(\d+)/?$",
        "(?i)abc",
        "a(?i)b",
        r"\pL+",
        "[[:alpha:]]+",
        r"\Qa(b\E",
        "(?P<n>a)",
        "(?U)a+",
        r"(a{9}\)){9}b{999}",
        r"\x{41}{900}",
    ],
)
def test_regular_expressions_of_re2(expression: str):
    """What RE2 has and Python may not is accepted."""
    assert fault_of_regex(expression) == ""


@pytest.mark.parametrize(
    "expression",
    [
        "(",
        "a(?=b)",
        "(?<!a)b",
        r"(a)\1",
        "a**",
        "a++",
        "[b",
        "a{2000}",
        "(?>a)",
        "*",
        "(a{100}){20}",
        "((a{9})b){9,200}",
        r"\x{263A}",
    ],
)
def test_not_regular_expressions_of_re2(expression: str):
    """What is malformed, or only in Python, is not."""
    assert fault_of_regex(expression) != ""
