"""Known answers for the debounce machine and the push queue, played in virtual time on the pure machines.

The scripts are read from `debounce/cases.yaml` below the folder that TRIERARCH_CASES names.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from trierarch.push.debounce import Debounce, DebounceOptions
from trierarch.push.queue import PushQueue
from trierarch.push.request import ConfigKey, PushRequest

ROOT = Path(os.environ.get("TRIERARCH_CASES") or Path(__file__).parents[3] / "shared")
FILE = (
    next((path for path in (ROOT / "conformance", ROOT) if (path / "debounce").is_dir()), ROOT) / "debounce/cases.yaml"
)
CASES = yaml.safe_load(FILE.read_text()) if FILE.is_file() else {}
MILLISECOND = 0.001
NO_CREDIT_LIMIT = 1_000_000

pytestmark = pytest.mark.skipif(not CASES, reason=f"no known answers at {FILE}: set TRIERARCH_CASES to where they are")


def named(section):
    """The cases of a section with their names as ids; none without the file."""
    cases = CASES.get(section, {}).get("cases", [])
    return pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in cases])


@dataclass(frozen=True)
class Update:
    """A change that is nothing but its kind."""

    endpoints_only: bool

    def merged(self, newer):
        """Both together."""
        return Update(self.endpoints_only and newer.endpoints_only)


class World:
    """The debounce machine with a builder that takes as long as the file says, stepped by the millisecond."""

    def __init__(self, options, durations) -> None:
        self.now = 0
        self.counts = {"partial": 0, "full": 0}
        self.debounce = Debounce(
            options=DebounceOptions(
                after=options["debounceAfterMs"] * MILLISECOND,
                longest=options["debounceMaxMs"] * MILLISECOND,
                endpoints=options["enableEdsDebounce"],
            )
        )
        self._durations = durations
        self._until = []  # when each running full build ends

    def update(self, kind):
        """A change comes."""
        self.debounce = self.debounce.add(Update(kind == "partial"), self.now * MILLISECOND)
        self._settle()

    def sleep(self, milliseconds):
        """Time passes."""
        for _ in range(milliseconds):
            self.now += 1
            self._settle()

    def _settle(self):
        for _ in [end for end in self._until if end <= self.now]:
            self._until.pop(0)
            self.debounce = self.debounce.finished()
        while True:
            self.debounce, batch = self.debounce.take(self.now * MILLISECOND + 1e-9)
            if batch is None:
                return
            kind = "partial" if batch.change.endpoints_only else "full"
            self.counts[kind] += 1
            assert kind == "partial" or not self._until, "two full pushes overlap"
            if self._durations[kind]:
                self._until.append(self.now + self._durations[kind])
            else:
                self.debounce = self.debounce.finished()


@named("debounce")
def test_debounce(case):
    """The number of pushes, partial and full, is the expected one within the time that the file allows."""
    setup = CASES["debounce"]
    world = World(setup["options"], setup["pushDurationMs"])
    for step in case["steps"]:
        match step:
            case {"update": kind}:
                world.update(kind)
            case {"sleepMs": milliseconds}:
                world.sleep(milliseconds)
            case {"expect": counts}:
                deadline = world.now + setup["expectWithinMs"]
                while world.counts != counts and world.now < deadline:
                    world.sleep(setup["options"]["debounceAfterMs"] // 2)
                assert world.counts == counts


class Line:
    """The push queue as the scripts see it: one push is taken out at a time."""

    def __init__(self) -> None:
        self.queue = PushQueue(NO_CREDIT_LIMIT)
        self.background = []

    def enqueue(self, proxy, configs=()):
        """A push for a proxy about these objects."""
        keys = frozenset(ConfigKey(each["kind"], each["namespace"], each["name"]) for each in configs)
        self.queue.offer(str(proxy), PushRequest(keys=keys), 0.0)

    def dequeue(self):
        """The next grant, if there is one."""
        return next(self.queue.grant(0.0), None)

    def play(self, step):
        """One step of a script."""
        match step:
            case {"enqueue": proxy}:
                self.enqueue(proxy, step.get("configs", ()))
            case {"dequeue": proxy}:
                assert self.dequeue().name == str(proxy)
            case {"dequeueTimeout": True}:
                assert self.dequeue() is None
            case {"markDone": proxy}:
                self.queue.done(str(proxy), 0.0)
            case {"dequeueInBackground": proxy}:
                assert self.dequeue() is None
                self.background.append(str(proxy))
            case {"join": True}:
                assert [self.dequeue().name for _ in self.background] == self.background
            case {"dequeueRequest": expected}:
                keys = {(each["kind"], each["namespace"], each["name"]) for each in expected["configs"]}
                assert self.dequeue().request.keys == keys
            case {"sleepMs": _}:
                pass
            case _:
                pytest.fail(f"unknown step {step}")


def two_removes_one_offer():
    """Of two who ask, one gets the push."""
    line = Line()
    line.enqueue(0)
    assert [line.dequeue().name, line.dequeue()] == ["0", None]


def every_key_reaches_every_proxy():
    """100 services x 100 proxies, offered while pushes are taken out: each proxy is told of each service."""
    line, told = Line(), defaultdict(set)

    def work():
        while grant := line.dequeue():
            told[grant.name] |= {key.name for key in grant.request.keys}
            line.queue.done(grant.name, 0.0)

    for service in range(100):
        for proxy in range(100):
            line.enqueue(proxy, [{"kind": "ServiceEntry", "namespace": "", "name": str(service)}])
            if (service + proxy) % 7 == 0:
                work()
    work()
    assert len(told) == 100
    assert all(len(names) == 100 for names in told.values())


def keys_come_in_order():
    """100 keys for one proxy, taken out now and then: never a later key before an earlier one."""
    line, seen = Line(), []
    for number in range(100):
        line.enqueue(0, [{"kind": "ServiceEntry", "namespace": "", "name": f"{number:03}"}])
        if number % 3 == 0:
            seen.append(sorted(key.name for key in line.dequeue().request.keys))
            line.queue.done("0", 0.0)
    flat = [name for names in seen for name in names]
    assert flat == sorted(flat)
    assert len(flat) == 100


IN_WORDS = {
    "two removes, one should block one should return": two_removes_one_offer,
    "concurrent": every_key_reaches_every_proxy,
    "concurrent with deterministic order": keys_come_in_order,
}
"""Cases that the file describes in words."""


@named("pushQueue")
def test_push_queue(case):
    """Each step of the script, or the sentence of the case, holds."""
    if "steps" not in case:
        IN_WORDS[case["name"]]()
        return
    line = Line()
    for step in case["steps"]:
        line.play(step)


def test_many_pushes_reach_every_proxy():
    """`sendPushes`: 100 rounds to 5 proxies, 2 at a time: everybody gets at least one, and the queue drains."""
    queue, pushed = PushQueue(2), defaultdict(int)
    for now in range(100):
        for proxy in range(5):
            queue.offer(str(proxy), PushRequest(), float(now))
        for grant in queue.grant(float(now)):
            pushed[grant.name] += 1
            if now % 2:
                queue.done(grant.name, float(now))
    for now in range(100, 110):
        for name in map(str, range(5)):
            queue.done(name, float(now))
        for grant in queue.grant(float(now)):
            pushed[grant.name] += 1
    assert len(queue) == 0
    assert len(pushed) == 5


def test_one_push_reaches_every_proxy_once():
    """`sendPushes`: one round to 5 proxies, 2 at a time: exactly one push each."""
    queue, pushed = PushQueue(2), []
    for proxy in range(5):
        queue.offer(str(proxy), PushRequest(), 0.0)
    for _ in range(3):
        batch = [grant.name for grant in queue.grant(0.0)]
        assert len(batch) <= 2
        pushed += batch
        for name in batch:
            queue.done(name, 0.0)
    assert sorted(pushed) == list("01234")
