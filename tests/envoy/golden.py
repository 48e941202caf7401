"""Goldens: whole output as text in `tests/golden/`, rewritten with `GOLDEN=1`. Commit only what you can explain."""

from __future__ import annotations

import json
import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


def check_golden(name: str, resources: dict) -> None:
    """Compare resources (name -> proto-JSON), in their order, with the golden of that name.

    Keys are sorted: Google's library gives the entries of a map in any order.
    """
    text = json.dumps(list(resources.values()), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    path = FOLDER / f"{name}.json"
    if os.environ.get("GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text(), f"tests/golden/{name}.json says otherwise; GOLDEN=1 rewrites it"
