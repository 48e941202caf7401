"""Every message to a source of intake, grouped by receiver. Like `actors.messages`, but few actors know these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.key_sets import JsonWebKeySet, KeyLocation


# --- to a source -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class ResendAll:
    """From intake: send the full set again."""


ToSource = ResendAll


# --- to the source of names ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class NamesWanted:
    """From the snapshot builder (control): look up these names from now on, and no others."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameLookedUp:
    """From a lookup of its own (control): the addresses of a name, sorted, or why there are none."""

    name: str
    addresses: tuple[str, ...] = ()
    problem: str = ""


ToDnsSource = ToSource | NamesWanted | NameLookedUp


# --- to the source of keys -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class KeysWanted:
    """From the snapshot builder (control): fetch the keys at these locations from now on, and at no others. Each with
    the seconds that it may take.
    """

    locations: Mapping[KeyLocation, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysFetched:
    """From a fetch of its own (control): what was found at a location."""

    location: KeyLocation
    found: JsonWebKeySet


ToJwksSource = ToSource | KeysWanted | KeysFetched
