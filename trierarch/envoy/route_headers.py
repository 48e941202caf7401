"""Changes to headers that a VirtualService asks for, as Envoy wants them (networking.md §5.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import HeaderValue, HeaderValueOption, HeaderValueOptionHeaderAppendAction
from trierarch.config.virtual_service import HeaderOperations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.proto.envoy.config.route.v3 import Route, WeightedClusterClusterWeight
    from trierarch.config.virtual_service import Headers

_OVERWRITE = HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD
_APPEND = HeaderValueOptionHeaderAppendAction.APPEND_IF_EXISTS_OR_ADD
_NONE = HeaderOperations()


@dataclass(frozen=True, slots=True)
class HeaderChanges:
    """Lists to add and to remove, and the authority that stands for a change of the Host header ("": none).

    Messages are made anew for each use: a message may not be part of two others that are changed.
    """

    request: HeaderOperations
    response: HeaderOperations

    @property
    def authority(self) -> str:
        """What the Host header becomes: Envoy does not let it be changed as a header."""
        return _authority(self.request.set) or _authority(self.request.add)

    def apply(self, target: Route | WeightedClusterClusterWeight) -> None:
        """Append these changes to those that a route or a weighted cluster has already."""
        target.request_headers_to_add += _additions(self.request)
        target.request_headers_to_remove += _removals(self.request)
        target.response_headers_to_add += _additions(self.response)
        target.response_headers_to_remove += _removals(self.response)


def header_changes(headers: Headers | None) -> HeaderChanges:
    """The changes on the way there and back; none for None."""
    if headers is None:
        return HeaderChanges(_NONE, _NONE)
    return HeaderChanges(headers.request or _NONE, headers.response or _NONE)


def _additions(operations: HeaderOperations) -> list[HeaderValueOption]:
    """First what is set, then what is added, each by name."""
    return [*_options(operations.set, _OVERWRITE), *_options(operations.add, _APPEND)]


def _options(values: Mapping[str, str], action: HeaderValueOptionHeaderAppendAction) -> list[HeaderValueOption]:
    return [
        HeaderValueOption(header=HeaderValue(key=name, value=values[name]), append_action=action)
        for name in sorted(values)
        if not _is_internal(name)
    ]


def _removals(operations: HeaderOperations) -> list[str]:
    return [name for name in operations.remove if not _is_internal(name)]


def _authority(values: Mapping[str, str]) -> str:
    return next((value for name, value in values.items() if name.lower() in ("host", ":authority")), "")


def _is_internal(name: str) -> bool:
    """Headers that Envoy refuses to have added or removed."""
    return name.startswith(":") or name.lower() == "host"
