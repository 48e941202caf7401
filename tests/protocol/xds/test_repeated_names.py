"""Names that a client repeats are not read again; whatever it sends, it is understood as if they were."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from protocol.wire import length_delimited, text_field
from protocol.xds.repeated_names import LEAST, MOST_BESIDE, MOST_TYPES, RepeatedNames
from protocol.xds.requests import SotwRequest
from protocol.xds.wire_requests import decode_sotw_request, encode_sotw_request
from tests.protocol.xds.tables import CDS, EDS, NACK

NAMES = tuple(f"outbound|80||service-{number}.shop.svc.cluster.local" for number in range(LEAST // 40))
LONG = tuple(f"{name}{'.long' * 20}" for name in NAMES)


def asking(names=NAMES, type_url=EDS, **fields):
    """A request of this client."""
    return SotwRequest(type_url=type_url, names=names, **fields)


class Reading:
    """Reads one stream. `cut` says of each request whether its names were known."""

    def __init__(self) -> None:
        self.known = RepeatedNames()
        self.cut = []

    def read(self, data):
        """A request, as whoever uses `RepeatedNames` reads it."""
        rest, names = self.known.cut(data)
        self.cut.append(rest != data)
        request = decode_sotw_request(rest)
        if names:
            return replace(request, names=names + request.names)
        return self.known.note(data, request)


def read(*requests):
    """Read these; they must come out as they are. Returns of which of them the names were known."""
    reading = Reading()
    assert [reading.read(encode_sotw_request(each)) for each in requests] == list(requests)
    return reading.cut


def test_the_names_of_an_answer_are_those_before():
    """Also if it is a NACK, and if the first request said who the client is."""
    first = asking(node=b"\n\x03web")
    assert read(first, asking(nonce="1", version="v"), asking(nonce="2", nack=NACK)) == [False, True, True]


def test_names_longer_than_a_byte_can_say_are_kept_too():
    """Their length takes two bytes."""
    assert read(asking(LONG), asking(LONG, nonce="1")) == [False, True]


def test_a_name_less_is_read():
    """And kept from then on. Of a name more only that one is read."""
    less, more = NAMES[1:], (*NAMES[1:], "new")
    assert read(asking(), asking(less), asking(less), asking(more)) == [False, False, True, True]


def test_each_type_has_its_own():
    """Clients ask for several types in turn."""
    other = NAMES[::-1]
    assert read(asking(), asking(other, CDS), asking(), asking(other, CDS)) == [False, False, True, True]


def test_there_is_an_end_to_the_types():
    """A client could make up ever more of them, and have the names of each kept."""
    made_up = [asking((str(number), *NAMES), f"type.example/{number}") for number in range(MOST_TYPES)]
    assert read(*made_up, asking(), made_up[0], asking()) == [False] * (MOST_TYPES + 1) + [True, False]


def test_few_names_are_not_worth_it():
    """They are read each time."""
    assert read(asking(NAMES[:5]), asking(NAMES[:5])) == [False, False]


def test_names_beside_much_else_are_not_kept():
    """To see that they are all the names, all else would have to be decoded once more, by whoever waits for nobody."""
    long = asking(node=bytes(MOST_BESIDE))
    assert read(long, long, asking(), asking()) == [False, False, False, True]


def test_equal_names_of_two_streams_are_kept_once():
    """Thousands of clients say the same, and each the same again: whoever remembers what one said sees so at once."""
    readings = [Reading(), Reading()]
    found = []
    for reading in readings:
        found += [reading.read(encode_sotw_request(asking(nonce=nonce))).names for nonce in ("", "1", "2")]
    assert all(names is found[0] for names in found)


FIELDS = st.lists(
    st.sampled_from(
        [
            b"".join(length_delimited(3, name.encode()) for name in NAMES),
            length_delimited(3, b"one"),
            text_field(1, "version"),
            text_field(4, EDS),
            text_field(4, CDS),
            text_field(5, "1"),
            text_field(5, "2"),
            length_delimited(2, b"node"),
            length_delimited(99, b"unknown"),
        ]
    ),
    max_size=6,
)


@given(st.lists(FIELDS, max_size=4))
def test_any_order_of_fields_is_understood(requests):
    """Whatever lies before, between and behind the names, a request says what it says when it is read whole."""
    reading = Reading()
    for fields in requests:
        data = b"".join(fields)
        assert reading.read(data) == decode_sotw_request(data)
