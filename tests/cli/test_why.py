"""`trierarch why`: a push in a few lines that say what caused it, what was sent, and what was not and why."""

from __future__ import annotations

from trierarch.cli.why import describe_push
from trierarch.push.causes import Cause, Causes, ChangeEvent, Stages
from trierarch.push.status import Outcome, PushRecord, TypeSent, record_fields

CAUSE = Cause(
    id=7,
    source="config",
    kind="VirtualService",
    namespace="shop",
    name="reviews",
    resource_version="",
    event=ChangeEvent.UPDATED,
    seen_at=1.0,
)


def record(**changes):
    """A push of routes that was acknowledged, as the debug page gives it."""
    fields = {
        "proxy": "front-1.shop",
        "connection": "front-1.shop-1",
        "snapshot": 3,
        "causes": Causes(kept=(CAUSE,)),
        "reasons": {"config": 1},
        "sent": (TypeSent(short="RDS", nonce="1-5", version="ab", sent=1, removed=0, size=3697),),
        "skipped": {"CDS": "nothing differs", "LDS": "nothing differs"},
        "stages": Stages(seen_at=1.0, debounced_at=1.1, built_at=1.101),
        "written_at": 1.103,
        "outcome": Outcome.ACKED,
        **changes,
    }
    return record_fields(PushRecord(**fields))


def body(push):
    """The lines after the head, which has a clock in it."""
    return describe_push(push).splitlines()[1:]


def test_a_push_is_told_from_cause_to_answer():
    """Cause, what was sent, what was skipped by reason, and the stages that it passed."""
    assert body(record()) == [
        "  because  VirtualService shop/reviews updated (in config, cause 7)",
        "  sent     RDS: 1 resources, 3697 bytes, nonce 1-5",
        "  skipped  CDS, LDS: nothing differs",
        "  took     debounced 100.0 ms, built 1.0 ms, written 2.0 ms",
    ]


def test_a_push_without_causes_shows_its_reason():
    """An answer to the client's own request was caused by nothing in the configuration."""
    assert body(record(causes=Causes(), reasons={"proxyrequest": 1}))[0] == "  because  reason proxyrequest"


def test_causes_beyond_the_kept_ones_are_counted():
    """Nobody is told that 50 of 80 changes were all."""
    assert "  because  and 30 more changes" in body(record(causes=Causes(kept=(CAUSE,), dropped=30)))


def test_a_rejection_is_told():
    """What the client said stands with the response that it rejected."""
    rejected = TypeSent(short="RDS", nonce="1-5", version="ab", sent=1, removed=2, size=9, error="bad regex")
    assert "  sent     RDS: 1 resources, 2 removed, 9 bytes, nonce 1-5; rejected: bad regex" in body(
        record(sent=(rejected,))
    )
