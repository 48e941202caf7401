"""What values of settings look like, as istiod reads them. Which settings there are is in `trierarch/settings.py`.

Each function raises ValueError, with words for people, for a text that it cannot read.
"""

from __future__ import annotations

from trierarch.config import scalars
from trierarch.push.mesh import KeyFetching


def parse_bool(text: str) -> bool:
    """`true`, `1`, `false`, `0` and their like, as Go's strconv.ParseBool reads them."""
    lowered = text.strip().lower()
    if lowered in {"1", "t", "true"}:
        return True
    if lowered in {"0", "f", "false", ""}:
        return False
    raise ValueError(f"{text!r} is not true or false")


def parse_duration(text: str) -> float:
    """A Go duration such as `100ms`, `1m30s` or `0`, in seconds; not a negative one."""
    seconds = scalars.parse_duration(text.strip())
    if seconds is None or seconds < 0:
        raise ValueError(f"{text!r} is not a duration such as 100ms or 10s")
    return seconds


def parse_address(text: str) -> str:
    """`HOST:PORT`, or `:PORT` for loopback; "" switches the listener off."""
    if not text:
        return ""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return f"{host or '127.0.0.1'}:{port}"


def parse_key_fetching(text: str) -> KeyFetching:
    """A mode by its name, or as the switch that it once was."""
    lowered = text.strip().lower()
    if lowered in {mode.value for mode in KeyFetching}:
        return KeyFetching(lowered)
    return KeyFetching.SHARED if parse_bool(text) else KeyFetching.OURS


def parse_clusters(text: str) -> tuple[tuple[str, str], ...]:
    """`NAME=DIR`, several separated by commas."""
    pairs = []
    for item in filter(None, text.split(",")):
        name, equals, folder = item.partition("=")
        if not (name and equals and folder):
            raise ValueError(f"{item!r} is not NAME=DIR")
        pairs.append((name, folder))
    return tuple(pairs)


def parse_names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def parse_interval(text: str) -> float:
    """A Go duration longer than nothing, in seconds."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError(f"{text!r} is not longer than nothing")
    return seconds


def parse_percentage(text: str) -> int:
    """A whole number from 1 to 99."""
    if not 0 < int(text) < 100:
        raise ValueError(f"{text!r} is not 1 to 99")
    return int(text)


def parse_key_size(text: str) -> int:
    """The bits of an RSA key that is neither unsafe nor endlessly slow."""
    if not 2048 <= int(text) <= 8192:
        raise ValueError(f"{text!r} is not 2048 to 8192")
    return int(text)
