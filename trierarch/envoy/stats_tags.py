"""What the names of a stock Envoy's statistics say, as tags: its own would end at the first dot of a host name.

Istio's Envoys count by source and destination themselves; a stock one has its counters by cluster, listener and filter.
Names of ours end with `;` (`stat_names.py`), so that a pattern can find their end (networking.md §8.1, §8.3).

A pattern's first group is taken out of the name, its second is the value. Patterns are tried on the whole name each, so
several may take out the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trierarch.envoy.well_known_types import Plain

_CLUSTER = r"^cluster\.(%s;\.)"
_PATTERNS = (
    ("cluster_name", _CLUSTER % "([^;]+)"),
    ("direction", _CLUSTER % r"(inbound|outbound)\|[^;]*"),
    ("port", _CLUSTER % r"(?:inbound|outbound)\|(\d+)\|[^;]*"),
    ("subset", _CLUSTER % r"outbound\|\d+\|([^|;]+)\|[^;]*"),
    ("service", _CLUSTER % r"outbound\|\d+\|[^|;]*\|([^;]+)"),
    ("connection_manager", r"^http\.(([^;]+);\.)"),
    ("tcp_prefix", r"^tcp\.((.+)\.)\w+$"),
    ("listener", r"^listener\.(((?:[\d.]+|\[[\da-fA-F_.]+\])_\d+)\.)"),
    ("response_code_class", r"_rq(_(\dxx))$"),
    ("response_code", r"_rq(_(\d{3}))$"),
)


def build_stats_config() -> dict[str, Plain]:
    """The bootstrap's `stats_config`."""
    tags: list[Plain] = [{"tag_name": name, "regex": pattern} for name, pattern in _PATTERNS]
    return {"use_all_default_tags": False, "stats_tags": tags}
