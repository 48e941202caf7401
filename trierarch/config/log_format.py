"""The JSON form of access log formats, which users write as text inside of their YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


def read_json_format(text: str) -> Mapping[str, Json] | None:
    """The object that the text holds, or None if it holds no JSON object."""
    try:
        found: Json = json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Mapping) else None


def texts_of(value: Json) -> Iterator[str]:
    """All texts that Envoy puts something into; to it keys are just names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from texts_of(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from texts_of(each)
