"""Shows every known configuration to real Envoys, which must take all of it.

    python -m tests.e2e.sweep --envoy PATH [--filter TEXT] [--share N] [--mutated SEED] [--json FILE]

Each mesh that `sweep_configurations` knows is generated for each sidecar that it names, as a stock Envoy with
certificates over ADS and as one without. For either there is one Envoy, which is served one configuration after
another. Exit code 1 if anything was refused or did not come into use.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import trio

from tests.conformance.answers import TYPES, generate_all
from tests.conformance.cases import Case, Document, build_client, build_snapshot, shared_folder
from tests.e2e.shops import next_network
from tests.e2e.sweep_configurations import load_configurations, mutated
from tests.e2e.sweep_stage import Audience, open_audience
from trierarch.push.proxy import Capabilities, Proxy, SecretSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from protocol.xds.resources import ResourceSet
    from trierarch.push.context import PushContext

AUDIENCES = {SecretSource.ADS: True, SecretSource.NONE: False}
"""Where an Envoy has its certificates from -> whether it speaks delta."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What an Envoy would not take."""

    case: str
    proxy: str
    audience: str
    reason: str

    def __str__(self) -> str:
        return f"{self.case} {self.proxy} [{self.audience}] {self.reason}"


@dataclass(slots=True, kw_only=True)
class Report:
    """What became of a sweep. `shown` counts configurations by family; equal ones are shown an Envoy once."""

    shown: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    refusals: list[Refusal] = field(default_factory=list)
    _seen: set[tuple[str, ...]] = field(default_factory=set)

    def is_new(self, audience: str, family: str, sets: dict[str, ResourceSet]) -> bool:
        """Note a configuration; whether this Envoy has not had one just like it."""
        key = (audience, *(each.version for each in sets.values()))
        new = key not in self._seen
        self._seen.add(key)
        (self.shown if new else self.equal)[family] += 1
        return new


async def sweep(envoy: Path, cases: Iterable[Case], folder: Path) -> Report:
    """Show these cases; logs are written into the folder."""
    report, network = Report(), next_network()
    async with trio.open_nursery() as nursery:
        audiences = {
            source: await nursery.start(open_audience_of, envoy, folder, source, f"{network}.{number}")
            for number, source in enumerate(AUDIENCES, 1)
        }
        for case in cases:
            await show_case(case, audiences, report)
        nursery.cancel_scope.cancel()
    return report


async def open_audience_of(
    envoy: Path, folder: Path, source: SecretSource, address: str, *, task_status: trio.TaskStatus[Audience]
) -> None:
    """An Envoy that has its certificates from there."""
    await open_audience(envoy, folder, source.value, address, delta=AUDIENCES[source], task_status=task_status)


async def show_case(case: Case, audiences: dict[SecretSource, Audience], report: Report) -> None:
    """Show what each sidecar of the case is sent to both Envoys, side by side."""
    context = build_snapshot(case)
    for name, node in sidecars(case):
        async with trio.open_nursery() as nursery:
            for source, audience in audiences.items():
                nursery.start_soon(show, case, name, context, as_stock(build_client(node), source), audience, report)


async def show(case: Case, name: str, context: PushContext, proxy: Proxy, audience: Audience, report: Report) -> None:
    """Show one configuration to one Envoy."""
    generated = generate_all(proxy, context)
    sets = {url: generated[kind] for kind, url in TYPES.items()}
    if not report.is_new(audience.name, case.family, sets):
        return
    try:
        reasons = await audience.judge(sets)
    except ChildProcessError as error:
        error.add_note(f"It was shown {case} {name} [{audience.name}].")
        raise
    report.refusals += [Refusal(case=str(case), proxy=name, audience=audience.name, reason=why) for why in reasons]


def sidecars(case: Case) -> Iterator[tuple[str, Document]]:
    """The Envoys of a case that are sidecars."""
    for name, node in case.head["proxies"].items():
        if node["id"].startswith("sidecar~") and "grpc" not in node:
            yield name, node


def as_stock(proxy: Proxy, source: SecretSource) -> Proxy:
    """The same workload with a stock Envoy in front of it."""
    return replace(proxy, capabilities=Capabilities(secrets=source))


def is_in_share(case: Case, one_in: int) -> bool:
    """Whether a case belongs to the part that is chosen by hash."""
    return int.from_bytes(blake2b(str(case).encode(), digest_size=4).digest(), "big") % one_in == 0


def main() -> int:
    """Sweep, and print what was refused."""
    options = _options()
    cases = [each for each in load_configurations() if is_in_share(each, options.share)]
    cases = [each for each in cases if options.filter in str(each)]
    if options.mutated is not None:
        cases = [mutated(each, Random(f"{options.mutated} {each}")) for each in cases]
    if not cases:
        print(f"no configurations at {shared_folder()}: set TRIERARCH_CASES to where they are")
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        report = trio.run(sweep, options.envoy, cases, Path(folder))
    _print(report, len(cases), time.monotonic() - started)
    if options.json:
        options.json.write_text(json.dumps([str(each) for each in report.refusals], indent=1))
    return 1 if report.refusals else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--envoy", type=Path, required=True, help="the binary")
    parser.add_argument("--filter", default="", help="only configurations whose family/name contains this")
    parser.add_argument("--share", type=int, default=1, help="one in so many, chosen by hash")
    parser.add_argument("--mutated", type=int, help="change objects of each mesh at random; the same for each seed")
    parser.add_argument("--json", type=Path, help="write what was refused")
    return parser.parse_args()


def _print(report: Report, cases: int, seconds: float) -> None:
    for refusal in report.refusals:
        print(refusal)
    for family in sorted(report.shown.keys() | report.equal.keys()):
        print(f"{family:20} {report.shown[family]:5} shown {report.equal[family]:5} equal to others")
    shown, equal = report.shown.total(), report.equal.total()
    print(f"{cases} meshes, {shown} configurations shown, {equal} equal ones, in {seconds:.0f} s", end=": ")
    print(f"{len(report.refusals)} refused")


if __name__ == "__main__":
    sys.exit(main())
