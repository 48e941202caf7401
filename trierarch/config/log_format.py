"""The JSON form of access log formats, which users write as text inside of their YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


def read_json_format(text: str) -> Mapping[str, Json] | None:
    """The object that the text holds, or None if it holds no JSON object."""
    try:
        found: Json = json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Mapping) else None
