"""Compares what is generated with what a real istiod answered, in one process and without any connection.

    python -m tests.conformance.oracle [--families clusters,endpoints] [--kinds clusters] [--filter TEXT] [--json FILE]

For each proxy of each case: view, scope, all resources that it would ask for, as proto-JSON, field by field. Prints the
share of equal resources by family and the most common differences. It judges nothing: the exit code is 0 unless a case
crashes.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.answers import answer
from tests.conformance.cases import Case, build_snapshot, load_cases, shared_folder
from tests.conformance.comparing import (
    KINDS,
    Row,
    Tally,
    Verdict,
    compare_answers,
    order_free,
    without_made_up_keys,
    without_tls,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

PROXIES = ("sidecar",)
"""Types of proxies that are looked at unless others are asked for."""


def run_case(
    case: Case, *, kinds: Iterable[str] = KINDS, proxies: Container[str] = PROXIES, with_tls: bool = True
) -> list[Row]:
    """All rows of a case, of its proxies of these types."""
    context = build_snapshot(case)
    rows: list[Row] = []
    given = json.dumps(case.objects)
    for name, node in case.head["proxies"].items():
        expected = case.expected.get(name)
        if expected is None or "error" in expected or node["id"].split("~")[0] not in proxies:
            continue
        found = answer(node, context)
        for kind in kinds:
            sides = [order_free(side) for side in (expected.get(kind) or [], found[kind])]
            sides = [without_made_up_keys(side, given) for side in sides]
            if not with_tls:
                sides = [without_tls(side) for side in sides]
            rows += compare_answers(name, kind, *sides)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; 1 if one crashed."""
    options = _options(arguments)
    tallies: dict[str, Tally] = {}
    reasons: dict[str, list[str]] = {}
    report: dict[str, Any] = {}
    crashed: list[str] = []
    for case in load_cases(options.cases, options.families, options.filter):
        try:
            rows = run_case(case, kinds=options.kinds, proxies=options.proxies, with_tls=not options.without_tls)
        except Exception:  # noqa: BLE001 - the next case may be fine
            crashed.append(str(case))
            print(f"-- {case} crashed\n{traceback.format_exc(limit=-4)}", file=sys.stderr)
            continue
        if not rows:
            continue
        tallies.setdefault(case.family, Tally()).add(rows)
        bad = [row for row in rows if row.verdict is not Verdict.EQUAL]
        report[str(case)] = [_row_report(row) for row in bad]
        _note_reasons(bad, str(case), reasons)
        _show(case, bad, options.show)
    _print_tallies(tallies, options.kinds)
    _print_reasons(reasons, options.reasons)
    if crashed:
        print(f"\n{len(crashed)} cases crashed: {', '.join(crashed)}")
    if options.json:
        options.json.write_text(
            json.dumps({"families": _totals(tallies), "crashed": crashed, "cases": report}, indent=1)
        )
    return 1 if crashed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    split = lambda text: tuple(filter(None, text.split(",")))  # noqa: E731
    parser.add_argument(
        "--cases", type=Path, default=shared_folder(), help="a folder with oracle/cases and oracle/expected"
    )
    parser.add_argument("--families", type=lambda text: frozenset(split(text)), default=frozenset())
    parser.add_argument("--kinds", type=split, default=KINDS, help=f"of {','.join(KINDS)}")
    parser.add_argument("--proxies", type=split, default=PROXIES, help="types of proxies")
    parser.add_argument("--filter", default="", help="only cases whose family/name contains this")
    parser.add_argument("--without-tls", action="store_true", help="leave transport sockets out of the comparison")
    parser.add_argument("--show", type=int, default=0, help="show so many differing resources of each case")
    parser.add_argument("--reasons", type=int, default=20, help="show so many of the most common differences")
    parser.add_argument("--json", type=Path, help="write totals and all differences")
    return parser.parse_args(arguments)


def _note_reasons(bad: list[Row], case: str, reasons: dict[str, list[str]]) -> None:
    for row in bad:
        where = [difference.pattern for difference in row.differences] or [f" {row.verdict}"]
        for pattern in dict.fromkeys(where):
            reasons.setdefault(f"{row.kind}{pattern}", []).append(f"{case} {row.proxy} {row.name}")


def _show(case: Case, bad: list[Row], count: int) -> None:
    if not bad or not count:
        return
    print(f"-- {case}: {case.about}")
    for row in bad[:count]:
        print(f"   {row.proxy} {row.kind} {row.name}: {row.verdict}")
        for difference in row.differences[:count]:
            print(f"      {difference.path}")
            print(f"        istiod {json.dumps(difference.expected)[:300]}")
            print(f"        ours   {json.dumps(difference.found)[:300]}")


def _print_tallies(tallies: dict[str, Tally], kinds: tuple[str, ...]) -> None:
    print(f"{'family':20} {'cases':>7} {'equal':>6}  " + "  ".join(f"{kind:>20}" for kind in kinds))
    for family, tally in [*sorted(tallies.items()), ("all", _sum(tallies))]:
        shares = [_share(tally.equal[kind], tally.resources[kind]) for kind in kinds]
        print(f"{family:20} {tally.cases:7} {tally.equal_cases:6}  " + "  ".join(f"{share:>20}" for share in shares))


def _share(equal: int, total: int) -> str:
    return f"{equal}/{total} {100 * equal / total:5.1f} %" if total else "-"


def _sum(tallies: dict[str, Tally]) -> Tally:
    whole = Tally()
    for tally in tallies.values():
        whole.cases += tally.cases
        whole.equal_cases += tally.equal_cases
        whole.resources += tally.resources
        whole.equal += tally.equal
    return whole


def _totals(tallies: dict[str, Tally]) -> dict[str, Any]:
    return {
        family: {
            "cases": tally.cases,
            "equal_cases": tally.equal_cases,
            "resources": dict(tally.resources),
            "equal": dict(tally.equal),
        }
        for family, tally in [*sorted(tallies.items()), ("all", _sum(tallies))]
    }


def _print_reasons(reasons: dict[str, list[str]], count: int) -> None:
    common = Counter({reason: len(places) for reason, places in reasons.items()}).most_common(count)
    if common:
        print("\nmost common differences")
    for reason, number in common:
        print(f"  {number:5}  {reason}    e.g. {reasons[reason][0]}")


def _row_report(row: Row) -> dict[str, Any]:
    differences = [[each.path, each.expected, each.found] for each in row.differences[:20]]
    return {"proxy": row.proxy, "kind": row.kind, "name": row.name, "verdict": row.verdict, "differences": differences}


if __name__ == "__main__":
    raise SystemExit(main())
