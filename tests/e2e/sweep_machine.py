"""What in a configuration is of the machine that it was written for, ports and files, made to fit this one.

Nothing else is touched: what an Envoy gets to see is otherwise what a proxy of the mesh would be sent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.listener.v3.listener_pb2 import Listener
from google.protobuf import json_format

from protocol.xds.resources import Part, ResourceSet, build_resource
from tests.conformance.protojson import load_messages
from tests.envoy.certificates import CERTIFICATE, KEY, REVOKED, ROOTS
from trierarch.envoy.secret_references import SYSTEM_ROOTS_FILE
from trierarch.envoy.types import CLUSTER, LISTENER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from google.protobuf.message import Message

_MESSAGES = {CLUSTER: Cluster, LISTENER: Listener}
_FILES = {"certificate_chain": CERTIFICATE, "private_key": KEY, "trusted_ca": ROOTS, "crl": REVOKED}
"""What a field of a TLS context reads -> the file that we have for that."""

_MARKS = (b".pem", SYSTEM_ROOTS_FILE.encode())
"""What names of files look like."""


def fit(sets: Mapping[str, ResourceSet], folder: Path) -> dict[str, ResourceSet]:
    """The same configuration, but its listeners bind nothing that others bind, and its certificates are those in the
    folder, which is this Envoy's own.
    """
    load_messages()
    fitted = {url: _fit_all(sets[url], kind, folder) for url, kind in _MESSAGES.items()}
    return {**sets, **fitted}


def _fit_all(resources: ResourceSet, kind: type[Message], folder: Path) -> ResourceSet:
    return ResourceSet(Part(build_resource(each.name, _fit(each.body, kind, folder)) for each in resources))


def _fit(body: bytes, kind: type[Message], folder: Path) -> bytes:
    message = kind.FromString(body)
    if any(mark in body for mark in _MARKS):
        message = _with_files_of(message, folder)
    if isinstance(message, Listener):
        _unbind(message, folder)
    return message.SerializeToString(deterministic=True)


def _unbind(listener: Listener, folder: Path) -> None:
    """Options of the socket go with it: Envoy 1.40 crashes over `transparent` without one. A Unix socket is bound all
    the same, so each Envoy gets one of its own, outside the file system, where it would stay.
    """
    listener.bind_to_port.value = False
    listener.ClearField("transparent")
    if listener.address.HasField("pipe"):
        listener.address.pipe.path = f"@{os.getpid()}/{folder.name}{listener.address.pipe.path}"


def _with_files_of(message: Message, folder: Path) -> Message:
    plain = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return json_format.ParseDict(_replaced(plain, folder), type(message)())


def _replaced(value: object, folder: Path) -> object:
    if isinstance(value, list):
        return [_replaced(each, folder) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {"filename": str(folder / _FILES[key])}
        if key in _FILES and "filename" in item
        else _replaced(item, folder)
        for key, item in value.items()
    }
