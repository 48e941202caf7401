"""What h2 would keep for ever, and does not here."""

import struct

from h2.settings import SettingCodes
from hpack import Decoder
from hyperframe.frame import HeadersFrame, RstStreamFrame, SettingsFrame

from actors.grpc.bounded_h2 import BoundedH2Connection
from actors.grpc.limits import Limits

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def greeted(**settings):
    """A connection whose peer has sent its first SETTINGS."""
    connection = BoundedH2Connection(Limits())
    connection.initiate_connection()
    frame = SettingsFrame(0, settings={SettingCodes[name]: value for name, value in settings.items()})
    connection.receive_data(PREFACE + frame.serialize())
    connection.clear_outbound_data_buffer()
    return connection


def test_unknown_settings_are_ignored():
    """A peer may name all 65,536 settings: those that mean nothing are not kept (RFC 9113 §6.5.2)."""
    connection = greeted()
    known = len(connection.remote_settings)
    for first in range(0x100, 0x10000, 2000):
        body = b"".join(struct.pack(">HI", code, 7) for code in range(first, min(first + 2000, 0x10000)))
        connection.receive_data(len(body).to_bytes(3, "big") + bytes([SettingsFrame.type, 0, 0, 0, 0, 0]) + body)
    assert len(connection.remote_settings) == known
    assert 0x100 not in connection.remote_settings


def test_known_settings_still_count():
    """Window and frame sizes of the peer are taken over."""
    connection = greeted(INITIAL_WINDOW_SIZE=123, MAX_FRAME_SIZE=65_536)
    assert connection.remote_settings.initial_window_size == 123
    assert connection.max_outbound_frame_size == 65_536


def test_closed_streams_are_forgotten():
    """Of streams that were reset a thousand are remembered, not 65,536."""
    connection = greeted()
    block = bytes([0x82, 0x84, 0x86, 0x41, 1]) + b"x"
    for stream in range(1, 6001, 2):
        opened = HeadersFrame(stream, block, flags=["END_HEADERS"]).serialize()
        connection.receive_data(opened + RstStreamFrame(stream, error_code=8).serialize())
    assert len(connection._closed_streams) <= 1000
    assert len(connection.streams) <= 1


def test_our_header_table_stays_small():
    """A peer that offers a table of 4 GiB gets headers that need 4 KiB, and can read them."""
    connection = greeted(HEADER_TABLE_SIZE=2**32 - 1)
    decoder = Decoder()
    for number in range(200):
        headers = [(b"grpc-message", b"%040d" % number)]
        assert [tuple(each) for each in decoder.decode(connection.encoder.encode(headers), raw=True)] == headers
    assert connection.encoder.header_table_size == 4096


def test_resizes_of_our_header_table_do_not_pile_up():
    """However often the peer changes its mind before we speak, two resizes tell what became of it (RFC 7541 §4.2)."""
    connection = greeted()
    connection.encoder.encode([(b"a", b"b")])
    for size in (3000, 50, 2000, 100, 4096) * 50:
        connection.receive_data(SettingsFrame(0, settings={SettingCodes.HEADER_TABLE_SIZE: size}).serialize())
    assert connection.encoder.table_size_changes == [50, 4096]
    decoder = Decoder()
    assert [tuple(each) for each in decoder.decode(connection.encoder.encode([(b"c", b"d")]), raw=True)] == [
        (b"c", b"d")
    ]
