"""Every state of a watch beside every shape of request: which case of xds-server.md §6.9 decides, and what it does."""

from itertools import product

import pytest

from protocol.errors import LocalError
from protocol.xds import delta
from protocol.xds.cases import decide
from protocol.xds.events import Acked, Asked, Nacked, StaleNonce
from protocol.xds.subscription import Watch, interned
from tests.protocol.xds.tables import CDS, EDS, NACK, TYPES, ask, build_set, subscribe

WORLD = build_set({"a": "1", "b": "1"})
HELD = Watch(names=interned("ab"), nonce="s-1", sent=WORLD)
LEAF_STATES = {"unwatched": None, "silent": Watch(names=interned("ab")), "sent": HELD}
WILDCARD_STATES = {
    "unwatched": None,
    "silent": Watch(names=interned("")),
    "sent": HELD._replace(names=interned("")),  # a and b came by the wildcard
    "named": HELD._replace(names=interned("a")),  # a was asked for by name
}
STATES = {EDS: LEAF_STATES, CDS: WILDCARD_STATES}
NONCES = {"none": "", "other": "s-0", "last": "s-1"}
NAMES = {
    "nothing": ("", "", ""),
    "+a": ("a", "", ""),
    "+c": ("c", "", ""),
    "+a+c": ("ac", "", ""),
    "-a": ("", "a", ""),
    "-c": ("", "c", ""),
    "+c-c": ("c", "c", ""),
    "+a-a": ("a", "a", ""),
    "+*": ("*", "", ""),
    "-*": ("", "*", ""),
    "=a": ("", "", "a"),
    "=c": ("", "", "c"),
}
"""What a request subscribes to (+), unsubscribes (-) and declares as held (=)."""

LEAF = """
    state      nonce  nothing +a  +c  +a+c -a  -c  +c-c +a-a +*  -*  =a  =c
    unwatched  none   2       2   2   2    2   2   2    2    2   2   2   2
    unwatched  other  2       2   2   2    2   2   2    2    2   2   2   2
    unwatched  last   2       2   2   2    2   2   2    2    2   2   2   2
    silent     none   4b      4b  4c  4c   4c  4b  4c   4c   4c  4b  4b  4c
    silent     other  3       3   3   3    3   3   3    3    3   3   3   3
    silent     last   3       3   3   3    3   3   3    3    3   3   3   3
    sent       none   4b      4b  4c  4c   4c  4b  4c   4c   4c  4b  4b  4c
    sent       other  3       3   3   3    3   3   3    3    3   3   3   3
    sent       last   4b      4b  4c  4c   4c  4b  4c   4c   4c  4b  4b  4c
"""
WILDCARD = """
    state      nonce  nothing +a  +c  +a+c -a  -c  +c-c +a-a +*  -*  =a  =c
    unwatched  none   2       2   2   2    2   2   2    2    2   2   2   2
    unwatched  other  2       2   2   2    2   2   2    2    2   2   2   2
    unwatched  last   2       2   2   2    2   2   2    2    2   2   2   2
    silent     none   4b      4c  4c  4c   4b  4b  4c   4c   4c  4b  4c  4c
    silent     other  3       3   3   3    3   3   3    3    3   3   3   3
    silent     last   3       3   3   3    3   3   3    3    3   3   3   3
    sent       none   4b      4b  4c  4c   4b  4b  4c   4b   4c  4b  4b  4c
    sent       other  3       3   3   3    3   3   3    3    3   3   3   3
    sent       last   4b      4b  4c  4c   4b  4b  4c   4b   4c  4b  4b  4c
    named      none   4b      4b  4c  4c   4c  4b  4c   4c   4c  4b  4b  4c
    named      other  3       3   3   3    3   3   3    3    3   3   3   3
    named      last   4b      4b  4c  4c   4c  4b  4c   4c   4c  4b  4b  4c
"""


def read_table(type_url: str, text: str) -> list[tuple[str, str, str, str, str]]:
    """The cells of a table: (type, state, nonce, names, case)."""
    header, *rows = [line.split() for line in text.strip().splitlines()]
    return [(type_url, row[0], row[1], *cell) for row in rows for cell in zip(header[2:], row[2:], strict=True)]


CELLS = read_table(EDS, LEAF) + read_table(CDS, WILDCARD)


def take_turn(type_url, state, nonce, names, nack=None):
    """The outcome of a request in a state, and the turn that it was."""
    plus, minus, declared = NAMES[names]
    request = subscribe(
        type_url, *plus, minus=minus, initial=dict.fromkeys(declared, "v"), nonce=NONCES[nonce], nack=nack
    )
    watch = STATES[type_url][state]
    wants, drops = interned(plus + declared), interned(minus)
    turn = delta.Turn(rules=TYPES[type_url], watch=watch, request=request, wants=wants, drops=drops)
    return turn, delta.receive(TYPES[type_url], watch, request)


def test_the_tables_hold_every_pair():
    """Nothing is left out: each state meets each nonce and each change of names, for leaf and wildcard types."""
    states = len(LEAF_STATES) + len(WILDCARD_STATES)
    assert len(CELLS) == len(set(CELLS)) == states * len(NONCES) * len(NAMES)


@pytest.mark.parametrize(("type_url", "state", "nonce", "names", "number"), CELLS)
def test_the_case_that_decides(type_url, state, nonce, names, number):
    """The first row of §6.9 that holds is the one that the table says."""
    turn, _ = take_turn(type_url, state, nonce, names)
    assert decide(delta.CASES, turn).number == number


@pytest.mark.parametrize(("type_url", "state", "nonce", "names", "number"), CELLS)
def test_what_the_case_does(type_url, state, nonce, names, number):
    """Each case tells what it should and leaves the watch as it should, whatever state it was met in."""
    turn, outcome = take_turn(type_url, state, nonce, names)
    kinds = [type(event) for event in outcome.events]
    wanted = turn.wants - turn.drops - {"*"}
    if names == "+*" and turn.watch and not turn.rules.wildcard:
        wanted = turn.watch.names  # a leaf type has no wildcard: all that is watched is told again
    answered = [Asked] if wanted or turn.rules.wildcard else []
    acked = [Acked] if nonce == "last" else []
    match number:
        case "2":
            assert kinds == answered
            assert outcome.watch.nonce == ""
        case "3":
            assert (outcome.watch._replace(late=None), kinds) == (turn.watch, [StaleNonce])
            assert (outcome.watch.late is not None) == bool(turn.request.subscribe or turn.request.unsubscribe)
        case "4b":
            assert (outcome.watch.names, outcome.watch.owed, kinds) == (turn.watching.names, None, acked)
        case "4c":
            assert kinds == acked + answered
            assert (outcome.watch.owed.names if outcome.watch.owed else frozenset()) == wanted
            assert not outcome.watch.names & turn.drops
            assert "*" not in outcome.watch.names


@pytest.mark.parametrize(
    ("type_url", "state", "nonce", "names"), [(t, *rest) for t in STATES for rest in product(STATES[t], NONCES, NAMES)]
)
def test_a_nack_is_case_1_everywhere(type_url, state, nonce, names):
    """An error_detail goes before all else: told once, the names of the request not taken, nothing owed."""
    turn, outcome = take_turn(type_url, state, nonce, names, nack=NACK)
    assert decide(delta.CASES, turn).number == "1"
    assert outcome.events == (Nacked(type_url=type_url, nonce=NONCES[nonce], code=13, message="no good"),)
    if turn.watch is None:
        assert outcome.watch is None
    else:
        told = outcome.watch._replace(late=None)
        assert told == turn.watch._replace(rejection=outcome.events[0], doubt=outcome.watch.doubt)
        assert outcome.watch.doubt.nacked


def test_a_request_of_the_other_dialect_is_our_own_error():
    """A peer cannot send one, as the method called decides how requests are decoded."""
    with pytest.raises(LocalError):
        delta.receive(TYPES[CDS], None, ask(CDS))
