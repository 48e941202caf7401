"""What generation needs once, made before anybody waits for it: the codec's functions for every message built here.

The codec writes and compiles a function for each class that it meets: 70 ms for all, up to 3 ms for one, and dozens
would come together in the first resource of each kind.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

from betterproto2 import Message

from protocol.codec import prepare
from protocol.proto.google.protobuf import Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.push.steps import Steps

_PACKAGE, _, _ = __name__.rpartition(".")


def prepare_codec() -> Steps[None]:
    """Have the encoders made of all classes that the modules loaded here name: they build no others, but what packs."""
    classes: set[type[Message]] = {Any, *_named_classes()}
    for message in sorted(classes, key=lambda each: f"{each.__module__}.{each.__qualname__}"):
        prepare(message)
        yield


def _named_classes() -> Iterator[type[Message]]:
    for name, module in tuple(sys.modules.items()):
        if name.startswith(f"{_PACKAGE}."):
            yield from filter(_is_generated, vars(module).values())


def _is_generated(value: object) -> TypeGuard[type[Message]]:
    """Whether it is a message class. To ask `issubclass` would have it look through all of thousands for each no."""
    return isinstance(value, type) and Message in value.__mro__[1:]
