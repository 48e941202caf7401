"""The codec of the generated message classes: canonical bytes, fast.

betterproto2's own `bytes()` and `parse()` interpret metadata for every field of every message; here each class gets an
encoder and a decoder that are written as Python source when it is first met (`plan`, `encode`, `decode`). Beside speed:

- equal messages have equal bytes (fields by number, map entries by key), so that a digest of them can be a version;
- zero durations, empty messages and zeros with presence are kept, negative durations are right;
- malformed data, cut short or otherwise, is a `DecodeError`;
- the last member of a oneof wins, and a message that comes in pieces is their sum.

What must not be here: the meaning of any message.
"""

from protocol.codec.any_message import pack, pack_encoded, unpack
from protocol.codec.decode import decode
from protocol.codec.encode import encode, prepare
from protocol.wire_reading import DecodeError

__all__ = ["DecodeError", "decode", "encode", "pack", "pack_encoded", "prepare", "unpack"]
