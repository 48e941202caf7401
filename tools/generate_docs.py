"""Writes `docs/reference.md` from the code: flags and variables, kinds, types, metrics, pages, log events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from actors import debug
from actors.logs import EVENTS
from actors.metrics import Metrics
from actors.port_metrics import PortMetrics
from trierarch.config.kinds import KINDS
from trierarch.envoy.types import TYPE_RULES
from trierarch.settings import setting_infos

if TYPE_CHECKING:
    from prometheus_client import Metric

TARGET = Path(__file__).parents[1] / "docs" / "reference.md"


def main() -> None:
    """Write the page."""
    TARGET.write_text(build_page())


def build_page() -> str:
    """The whole page."""
    return "\n".join(
        [
            "# Reference",
            "",
            "Generated from the code by `make docs`.",
            "",
            *_table("Flags and variables of `trierarch serve`", ("flag", "variable", "default", "what"), _settings()),
            *_table("Kinds of configuration", ("kind", "group", "versions"), _kinds()),
            *_table("Resource types", ("type", "type URL"), _types()),
            *_table("Metrics", ("metric", "kind", "labels", "what"), _metrics()),
            *_table("Pages", ("path", "what"), _pages()),
            *_table("Log events", ("event", "meaning"), list(EVENTS.items())),
        ]
    )


def _table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return [f"## {title}", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines, ""]


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _settings() -> list[tuple[str, ...]]:
    return [
        (_code(info.flag), _code(info.variable), _code(_default(default)), info.about)
        for _, default, info in setting_infos()
    ]


def _default(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _kinds() -> list[tuple[str, ...]]:
    return [(kind.name, kind.group or "core", ", ".join(kind.versions)) for kind in KINDS.values()]


def _types() -> list[tuple[str, ...]]:
    return [(rules.short, _code(url)) for url, rules in TYPE_RULES.items()]


def _metrics() -> list[tuple[str, ...]]:
    own = (getattr(each, "metric", each) for each in vars(Metrics()).values())
    rows = [_metric(each.describe()[0], each._labelnames) for each in own if hasattr(each, "describe")]
    return rows + [_metric(each, each._labelnames) for each in PortMetrics(tuple).describe()]


def _metric(metric: Metric, labels: tuple[str, ...]) -> tuple[str, ...]:
    return (_code(metric.name), metric.type, ", ".join(labels), metric.documentation)


def _pages() -> list[tuple[str, ...]]:
    shown = [(_code(path), (page.__doc__ or "").strip()) for path, page in debug.PAGES.items()]
    return [*shown, (_code(f"POST {debug.KILL}"), (debug.Pages.kill.__doc__ or "").strip())]


if __name__ == "__main__":
    main()
