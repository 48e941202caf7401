"""What import-linter is told is whole: a contract that lists modules says nothing of those that it leaves out."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_actor_is_in_the_contract():
    """Modules of actors with a `run` are those that may not import each other."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (each for each in linter["contracts"] if each["type"] == "independence")
    actors = {
        f"actors.{path.stem}"
        for path in (ROOT / "actors").glob("*.py")
        if re.search(r"^async def run\(", path.read_text(), re.MULTILINE)
    }
    assert set(contract["modules"]) == actors
