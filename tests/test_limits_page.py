"""`docs/limits.md` has every limit, with the value that the code has."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from trierarch.settings import setting_infos

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "limits.md").read_text()


def generator():
    """The program that makes the page."""
    spec = importlib.util.spec_from_file_location("generate_limits", ROOT / "tools" / "generate_limits.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current():
    """It is what the generator makes of the code now (`make docs`)."""
    assert generator().build_page() == PAGE


def test_no_limit_of_the_server_is_left_out():
    """Every field of `actors.grpc.limits.Limits` is in a table."""
    assert generator().unmentioned() == set()


def test_the_variables_exist():
    """Whoever reads of a variable can set it."""
    known = {info.variable for _, _, info in setting_infos()}
    assert {row.settable for rows in generator().TABLES.values() for row in rows} <= known | {""}
