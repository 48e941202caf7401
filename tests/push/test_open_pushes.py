"""Open pushes: a push is finished exactly once, by its answers, by time or by the end of the stream."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from trierarch.push.causes import Causes
from trierarch.push.open_pushes import MOST_OPEN, PATIENCE, OpenPushes
from trierarch.push.status import Outcome, PushRecord, TypeSent


def push(*nonces: str) -> PushRecord:
    """A push that was sent in responses with these nonces, each of another type."""
    sent = tuple(
        TypeSent(short=short, nonce=nonce, version="v", sent=1, removed=0, size=9)
        for short, nonce in zip(("CDS", "EDS", "LDS", "RDS"), nonces, strict=False)
    )
    return PushRecord(proxy="p", connection="p-1", snapshot=1, causes=Causes(), sent=sent, outcome=Outcome.UNCHANGED)


def test_a_push_is_acked_when_its_last_response_is():
    """One answer of two leaves the push open; the second finishes it as acked at that time."""
    pushes = OpenPushes()
    pushes.begin(push("1", "2"), now=0.0, wall=0.0)
    assert pushes.answered("2", "", now=1.0, wall=9.0) == ()
    (finished,) = pushes.answered("1", "", now=2.0, wall=9.0)
    assert (finished.outcome, finished.answered_at, finished.finished_wall) == (Outcome.ACKED, 2.0, 9.0)


def test_an_answer_overtakes_what_came_before_of_its_type():
    """A client that has had two responses of a type may answer the second only; what is of another type stays open."""
    pushes = OpenPushes()
    for nonces in (("1",), ("2", "3"), ("4",), ("5",)):
        pushes.begin(push(*nonces), now=0.0, wall=0.0)
    finished = pushes.answered("4", "", now=1.0, wall=9.0)
    assert [(record.sent[0].nonce, record.outcome) for record in finished] == [
        ("1", Outcome.ACKED),
        ("4", Outcome.ACKED),
    ]
    assert [record.sent[0].nonce for record in pushes.answered("3", "", now=2.0, wall=9.0)] == ["2"]
    assert [record.sent[0].nonce for record in pushes.close(wall=9.0)] == ["5"]


def test_a_rejection_is_of_one_response():
    """What a rejected response overtakes was not rejected."""
    pushes = OpenPushes()
    pushes.begin(push("1"), now=0.0, wall=0.0)
    pushes.begin(push("2"), now=0.0, wall=0.0)
    outcomes = [record.outcome for record in pushes.answered("2", "bad regex", now=1.0, wall=9.0)]
    assert outcomes == [Outcome.ACKED, Outcome.NACKED]


def test_one_rejection_makes_the_push_nacked_and_keeps_its_reason():
    """A push with one NACK among its answers is nacked, and the reason stays with that response."""
    pushes = OpenPushes()
    pushes.begin(push("1", "2"), now=0.0, wall=0.0)
    pushes.answered("1", "bad regex", now=1.0, wall=9.0)
    (finished,) = pushes.answered("2", "", now=1.0, wall=9.0)
    assert finished.outcome is Outcome.NACKED
    assert [item.error for item in finished.sent] == ["bad regex", ""]


def test_nobody_answers_in_time():
    """At its deadline, not before, a push is finished as unanswered."""
    pushes = OpenPushes()
    pushes.begin(push("1"), now=10.0, wall=0.0)
    assert pushes.deadline() == 10.0 + PATIENCE
    assert pushes.expire(10.0 + PATIENCE - 0.001, wall=9.0) == ()
    (finished,) = pushes.expire(10.0 + PATIENCE, wall=9.0)
    assert finished.outcome is Outcome.UNANSWERED
    assert pushes.deadline() == inf


def test_of_too_many_the_oldest_is_given_up():
    """A client may ask without end and answer nothing."""
    pushes = OpenPushes()
    for number in range(MOST_OPEN):
        assert pushes.begin(push(f"{number}"), now=0.0, wall=0.0) == ()
    (given_up,) = pushes.begin(push("one more"), now=1.0, wall=9.0)
    assert (given_up.sent[0].nonce, given_up.outcome, given_up.finished_wall) == ("0", Outcome.UNANSWERED, 9.0)
    assert len(pushes.close(wall=9.0)) == MOST_OPEN


def test_an_unknown_nonce_finishes_nothing():
    """An answer to a response that no push waits for is ignored."""
    pushes = OpenPushes()
    pushes.begin(push("1"), now=0.0, wall=0.0)
    assert pushes.answered("7", "", now=1.0, wall=9.0) == ()


@given(st.lists(st.integers(1, 4), max_size=6), st.randoms(use_true_random=False))
def test_each_push_is_finished_exactly_once(sizes, random):
    """Whatever is answered in whatever order, and then closed, each push comes out once."""
    pushes, nonces = OpenPushes(), []
    for number, size in enumerate(sizes):
        names = [f"{number}.{index}" for index in range(size)]
        nonces += names
        pushes.begin(push(*names), now=0.0, wall=0.0)
    random.shuffle(nonces)
    finished = [
        record for nonce in nonces[: len(nonces) // 2] for record in pushes.answered(nonce, "", now=1.0, wall=9.0)
    ]
    finished += pushes.close(wall=9.0)
    assert sorted(len(record.sent) for record in finished) == sorted(sizes)
