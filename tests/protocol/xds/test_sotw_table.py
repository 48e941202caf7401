"""Every state of a watch beside every shape of request: which case of xds-server.md §6.4 decides, and what it does."""

from itertools import product

import pytest

from protocol.errors import LocalError
from protocol.xds import sotw
from protocol.xds.cases import decide
from protocol.xds.events import Acked, Asked, Nacked, StaleNonce, Unsubscribed
from protocol.xds.subscription import Watch, interned
from tests.protocol.xds.tables import CDS, EDS, NACK, TYPES, ask, subscribe

HELD = Watch(names=interned("ab"), nonce="s-1")
STATES = {
    "unwatched": None,  # never asked for, or unsubscribed
    "silent": HELD._replace(nonce=""),  # asked for, but nothing was found to send
    "sent": HELD,
    "pressed": HELD._replace(pressed=True),  # what it follows was asked for anew
}
NONCES = {"none": "", "other": "s-0", "last": "s-1"}
NAMES = {"same": "ba", "fewer": "a", "more": "abc", "swapped": "ac", "nothing": ""}

LEAF = """
    state      nonce   same  fewer  more  swapped  nothing
    unwatched  none    3     3      3     3        2
    unwatched  other   3     3      3     3        2
    unwatched  last    3     3      3     3        2
    silent     none    3     3      3     3        2
    silent     other   4     4      4     4        2
    silent     last    4     4      4     4        2
    sent       none    3     3      3     3        2
    sent       other   4     4      4     4        2
    sent       last    5b    5c     5d    5d       2
    pressed    none    3     3      3     3        2
    pressed    other   4     4      4     4        2
    pressed    last    5a    5a     5a    5a       2
"""
WILDCARD = """
    state      nonce   same  fewer  more  swapped  nothing
    unwatched  none    3     3      3     3        3
    unwatched  other   3     3      3     3        3
    unwatched  last    3     3      3     3        3
    silent     none    3     3      3     3        3
    silent     other   4     4      4     4        4
    silent     last    4     4      4     4        4
    sent       none    3     3      3     3        3
    sent       other   4     4      4     4        4
    sent       last    5b    5d     5d    5d       5d
    pressed    none    3     3      3     3        3
    pressed    other   4     4      4     4        4
    pressed    last    5a    5a     5a    5a       5a
"""


def read_table(type_url: str, text: str) -> list[tuple[str, str, str, str, str]]:
    """The cells of a table: (type, state, nonce, names, case)."""
    header, *rows = [line.split() for line in text.strip().splitlines()]
    return [(type_url, row[0], row[1], *cell) for row in rows for cell in zip(header[2:], row[2:], strict=True)]


CELLS = read_table(EDS, LEAF) + read_table(CDS, WILDCARD)


def take_turn(type_url, state, nonce, names, nack=None):
    """The outcome of a request in a state, and the turn that it was."""
    request = ask(type_url, *NAMES[names], nonce=NONCES[nonce], nack=nack)
    watch = STATES[state]
    known = watch.names if watch else frozenset()
    turn = sotw.Turn(rules=TYPES[type_url], watch=watch, request=request, names=interned(request.names, known))
    return turn, sotw.receive(TYPES[type_url], watch, request)


def test_the_tables_hold_every_pair():
    """Nothing is left out: each state meets each nonce and each list of names, for leaf and wildcard types."""
    assert len(CELLS) == len(set(CELLS)) == 2 * len(STATES) * len(NONCES) * len(NAMES)


@pytest.mark.parametrize(("type_url", "state", "nonce", "names", "number"), CELLS)
def test_the_case_that_decides(type_url, state, nonce, names, number):
    """The first row of §6.4 that holds is the one that the table says."""
    turn, _ = take_turn(type_url, state, nonce, names)
    assert decide(sotw.CASES, turn).number == number


@pytest.mark.parametrize(("type_url", "state", "nonce", "names", "number"), CELLS)
def test_what_the_case_does(type_url, state, nonce, names, number):
    """Each case tells what it should and leaves the watch as it should, whatever state it was met in."""
    turn, outcome = take_turn(type_url, state, nonce, names)
    kinds = [type(event) for event in outcome.events]
    match number:
        case "2":
            told = (Unsubscribed(type_url=type_url, nonce=turn.watch.nonce),) if turn.watch else ()
            assert (outcome.watch, outcome.events) == (None, told)
        case "3":
            assert (outcome.watch.names, outcome.watch.nonce, kinds) == (turn.names, "", [Asked])
            assert outcome.presses
        case "4":
            assert (outcome.watch, kinds) == (turn.watch, [StaleNonce])
        case "5b" | "5c":
            assert (outcome.watch.names, outcome.watch.owed, kinds) == (turn.names, None, [Acked])
        case _:
            wanted = turn.names if number == "5a" else turn.names - turn.watching.names
            assert (outcome.watch.names, outcome.watch.owed.names, kinds) == (turn.names, wanted, [Acked, Asked])
            assert not outcome.watch.pressed


@pytest.mark.parametrize("type_url", [EDS, CDS])
@pytest.mark.parametrize(("state", "nonce", "names"), list(product(STATES, NONCES, NAMES)))
def test_a_nack_is_case_1_everywhere(type_url, state, nonce, names):
    """An error_detail goes before all else: told once, the names of the request not taken, nothing owed."""
    turn, outcome = take_turn(type_url, state, nonce, names, nack=NACK)
    assert decide(sotw.CASES, turn).number == "1"
    assert outcome.events == (Nacked(type_url=type_url, nonce=NONCES[nonce], code=13, message="no good"),)
    if turn.watch is None:
        assert outcome.watch is None
    else:
        assert outcome.watch == turn.watch._replace(rejection=outcome.events[0], doubt=outcome.watch.doubt)
        assert outcome.watch.doubt.nacked


def test_a_request_of_the_other_dialect_is_our_own_error():
    """A peer cannot send one, as the method called decides how requests are decoded."""
    with pytest.raises(LocalError):
        sotw.receive(TYPES[CDS], None, subscribe(CDS))
