"""The files of the mesh configuration and the networks: one document each, without apiVersion and kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.admission import Admitted, Refused, check, refuse
from trierarch.config.decode import decode_mesh_config, decode_mesh_networks
from trierarch.config.documents import parse_document, split_documents
from trierarch.config.findings import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trierarch.config.decode import Decoded
    from trierarch.config.objects import Origin


def read_mesh_config(data: bytes, origin: Origin, cluster: str) -> Admitted | Refused:
    """The mesh configuration in a file, laid over the defaults. An empty file is the default mesh."""
    return _read(data, origin, cluster, decode_mesh_config)


def read_mesh_networks(data: bytes, origin: Origin, cluster: str) -> Admitted | Refused:
    """The networks in a file."""
    return _read(data, origin, cluster, decode_mesh_networks)


def _read(
    data: bytes,
    origin: Origin,
    cluster: str,
    decode: Callable[[Mapping[str, object], Origin, str], Decoded | Rejected],
) -> Admitted | Refused:
    chunks = split_documents(data, origin.path)
    if len(chunks) > 1:
        return refuse(Rejected(origin=origin, key=None, path="", reason="expected one document, found several"))
    document: Mapping[str, object] = {}
    for chunk in chunks:
        parsed = parse_document(chunk, origin)
        if isinstance(parsed, Rejected):
            return refuse(parsed)
        document = parsed[0].value if parsed else {}
    decoded = decode(document, origin, cluster)
    return refuse(decoded) if isinstance(decoded, Rejected) else check(decoded)
