"""The debounce machine, by the worked trace of xds-server.md §15.9 and by properties."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trierarch.push.debounce import Debounce, DebounceOptions


@dataclass(frozen=True, slots=True)
class Events:
    """A change for tests: the numbers of the events in it."""

    numbers: tuple[int, ...]
    endpoints_only: bool = False

    def merged(self, newer):
        """Both, in order."""
        return Events(self.numbers + newer.numbers, self.endpoints_only and newer.endpoints_only)


DEFAULT = Debounce(options=DebounceOptions())
UNDELAYED = Debounce(options=DebounceOptions(endpoints=False))


def test_the_worked_trace():
    """Two events 60 ms apart leave together at 160 ms; one that comes during the build leaves when that is done."""
    debounce = DEFAULT.add(Events((1,)), 0.0)
    assert debounce.deadline() == pytest.approx(0.1)
    debounce = debounce.add(Events((2,)), 0.06)
    assert debounce.take(0.1) == (debounce, None)
    assert debounce.deadline() == pytest.approx(0.16)
    debounce, batch = debounce.take(0.16)
    assert (batch.change.numbers, batch.events, batch.first_at, batch.last_at) == ((1, 2), 2, 0.0, 0.06)
    debounce = debounce.add(Events((3,)), 0.17)
    assert debounce.deadline() is None
    assert debounce.take(0.27) == (debounce, None)
    debounce = debounce.finished()
    _, batch = debounce.take(0.4)
    assert (batch.change.numbers, batch.first_at) == ((3,), 0.17)


def test_a_build_that_ends_in_the_middle_of_a_batch_does_not_cut_it_short():
    """What came during a build is held until it is quiet, even if the build is done before."""
    debounce, _ = DEFAULT.add(Events((1,)), 0.0).take(1.0)
    debounce = debounce.add(Events((2,)), 1.05).finished()
    assert debounce.take(1.1) == (debounce, None)
    assert debounce.deadline() == pytest.approx(1.15)


def test_a_steady_stream_leaves_after_the_longest_time():
    """Events every 50 ms for ever: a batch leaves 10 s after it opened."""
    debounce = DEFAULT
    for step in range(200):
        assert debounce.take(step * 0.05)[1] is None
        debounce = debounce.add(Events((step,)), step * 0.05)
    assert debounce.deadline() == 10.0
    _, batch = debounce.take(10.0)
    assert batch.events == 200


def test_endpoints_wait_by_default():
    """An endpoint change is held back like any other."""
    debounce = DEFAULT.add(Events((1,), endpoints_only=True), 0.0)
    assert debounce.take(0.05)[1] is None


def test_endpoints_pass_if_they_need_not_wait():
    """Each by itself and at once, past a waiting batch and a running build; the batch then waits for those builds."""
    debounce = UNDELAYED.add(Events((1,)), 0.0)
    debounce = debounce.add(Events((2,), endpoints_only=True), 0.01).add(Events((3,), endpoints_only=True), 0.02)
    assert debounce.deadline() == 0.01
    debounce, first = debounce.take(0.02)
    debounce, second = debounce.take(0.02)
    assert [first.change.numbers, second.change.numbers] == [(2,), (3,)]
    assert debounce.deadline() is None
    debounce = debounce.finished().finished()
    assert debounce.deadline() == pytest.approx(0.1)
    debounce, _ = debounce.take(0.1)
    debounce = debounce.add(Events((4,), endpoints_only=True), 0.2)
    assert debounce.take(0.2)[1].change.numbers == (4,)


def test_an_idle_builder_may_say_so_at_any_time():
    """A builder that has just started says that it is idle: nothing happens."""
    assert DEFAULT.finished() == DEFAULT


STEPS = st.lists(
    st.tuples(st.floats(0, 0.3), st.sampled_from(["full", "endpoints", "take", "finished", "finished"])), max_size=80
)


@given(STEPS, st.booleans())
def test_nothing_is_lost_or_doubled(steps, endpoints):
    """Whatever comes when: each event is released exactly once and in order, never two batches at a time, never a batch
    that is neither quiet nor old.
    """
    options = DebounceOptions(after=0.1, longest=1.0, endpoints=endpoints)
    debounce, now, released = Debounce(options=options), 0.0, []
    for number, (gap, step) in enumerate(steps):
        now += gap
        match step:
            case "take":
                busy = debounce.building
                debounce, batch = debounce.take(now)
                if batch is not None:
                    released.append(batch.change.numbers)
                    alone = batch.change.endpoints_only and not endpoints
                    assert alone or (busy == 0 and (now - batch.last_at >= 0.099 or now - batch.first_at >= 0.999))
            case "finished":
                debounce = debounce.finished()
            case kind:
                debounce = debounce.add(Events((number,), kind == "endpoints"), now)
    while debounce.deadline() is not None or debounce.building:
        debounce, batch = debounce.finished().take(now + 10)
        released += [batch.change.numbers] if batch else []
    added = [number for number, (_, step) in enumerate(steps) if step in {"full", "endpoints"}]
    assert sorted(number for numbers in released for number in numbers) == added
    assert all(list(numbers) == sorted(numbers) for numbers in released)
