"""`docs/limits.md` has every limit, with the value that the code has."""

from __future__ import annotations

from pathlib import Path

from tools import generate_limits
from trierarch.settings import setting_infos

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "limits.md").read_text()


def test_the_page_is_current():
    """It is what the generator makes of the code now (`make docs`)."""
    assert generate_limits.build_page() == PAGE


def test_no_limit_of_the_server_is_left_out():
    """Every field of `actors.grpc.limits.Limits` is in a table."""
    assert generate_limits.unmentioned() == set()


def test_the_variables_exist():
    """Whoever reads of a variable can set it."""
    known = {info.variable for _, _, info in setting_infos()}
    assert {row.settable for rows in generate_limits.TABLES.values() for row in rows} <= known | {""}
