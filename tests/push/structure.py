"""Compares snapshots and scopes by what they say: model objects compare by identity, which is too fine for a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

from trierarch.config.objects import ConfigObject

UNSEEN = frozenset({"memo", "number", "changed", "view"})
"""Fields that say how a value came about, not what it says."""


def structure(value: object) -> object:
    """A value as nested tuples and dictionaries that compare by content; configuration objects by key and digest."""
    if isinstance(value, ConfigObject):
        return (value.key, value.digest)
    if isinstance(value, Enum):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        said = {each.name: structure(getattr(value, each.name)) for each in fields(value) if each.name not in UNSEEN}
        return (type(value).__name__, said)
    if isinstance(value, Mapping):
        return {key: structure(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(structure(each) for each in value)
    return value
