"""Admission of first configurations."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from trierarch.push.admission import Admission


def test_newcomers_are_admitted_a_few_at_a_time():
    """In the order in which they came, as many as there are places; the next when one has acknowledged."""
    admission = Admission(2, standstill=inf)
    for name in "abcd":
        admission.ask(name)
    assert list(admission.admit(0.0)) == ["a", "b"]
    assert len(admission) == 2
    assert list(admission.admit(1.0)) == []
    admission.done("b")
    assert list(admission.admit(1.0)) == ["c"]


def test_who_does_not_answer_loses_the_place():
    """After five seconds a place goes to the next."""
    admission = Admission(1, standstill=inf)
    admission.ask("a")
    assert list(admission.admit(10.0)) == ["a"]
    assert admission.deadline() is None
    admission.ask("b")
    assert admission.deadline() == 15.0
    assert list(admission.admit(14.9)) == []
    assert list(admission.admit(15.0)) == ["b"]


def test_clients_that_never_answer_do_not_stop_the_line():
    """When nobody could be let in for a tenth of a second, the next one is, whatever places are taken."""
    admission = Admission(1)
    for name in "abc":
        admission.ask(name)
    assert list(admission.admit(10.0)) == ["a"]
    assert admission.deadline() == 10.1
    assert list(admission.admit(10.05)) == []
    assert list(admission.admit(10.1)) == ["b"]
    assert list(admission.admit(10.15)) == []
    assert list(admission.admit(10.3)) == ["c"]
    assert admission.deadline() is None


def test_returning_clients_need_no_place():
    """A client that has its configuration already is served at once, even when all places are taken."""
    admission = Admission(1)
    admission.ask("a")
    admission.ask("b")
    admission.ask("c", at_once=True)
    admission.ask("b", at_once=True)
    assert list(admission.admit(0.0)) == ["c", "b", "a"]


def test_asking_again_is_answered_again():
    """A connection that was admitted and restarted asks again, and its old place is free."""
    admission = Admission(1)
    admission.ask("a")
    assert list(admission.admit(0.0)) == ["a"]
    admission.ask("a")
    assert list(admission.admit(0.0)) == ["a"]


def test_who_has_gone_is_forgotten():
    """In line, inside or returning."""
    admission = Admission(1)
    for name in "abc":
        admission.ask(name)
    admission.ask("d", at_once=True)
    admission.forget("d")
    assert list(admission.admit(0.0)) == ["a"]
    admission.forget("b")
    admission.forget("a")
    assert list(admission.admit(0.0)) == ["c"]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["ask", "done", "forget"]))), st.integers(1, 3))
def test_everybody_is_admitted_in_the_end(steps, places):
    """Whatever happens in between, everybody who still waits is admitted once when enough time has passed."""
    admission, waiting = Admission(places), set()
    for name, action in steps:
        getattr(admission, action)(name)
        if action == "ask":
            waiting.add(name)
        elif action == "forget":
            waiting.discard(name)
        waiting -= set(admission.admit(0.0))
    admitted = [name for now in range(10, 70, 6) for name in admission.admit(float(now))]
    assert sorted(admitted) == sorted(waiting)
