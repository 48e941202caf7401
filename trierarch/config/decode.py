"""From a document (an object as YAML or JSON gave it) to a configuration object. What users write raises nothing.

What the classes look like decides what is read: `schema.py` compiles them. This module knows what is common to all
objects: apiVersion, kind, metadata, and what becomes of what cannot be read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING

from trierarch.config.findings import Rejected, Remark
from trierarch.config.kinds import MESH_CONFIG, MESH_NETWORKS, Family, Kind, find_kind
from trierarch.config.mesh_config import MeshConfig, with_built_in_providers
from trierarch.config.metadata import Metadata
from trierarch.config.objects import AnyObject, ConfigObject, ObjectKey, Origin
from trierarch.config.scalars import Malformed, Note, Notes, render
from trierarch.config.schema import compile_message, read_document

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_NAMESPACE = "default"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation that holds the whole object once more: dropped."""

_ENVELOPE = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """An object, and what is remarkable about it."""

    object: AnyObject
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKind:
    """A document of a kind that is not in the table. The source names each (api_version, kind) once."""

    api_version: str
    kind: str
    origin: Origin


def decode_object(document: Mapping[str, object], origin: Origin, cluster: str) -> Decoded | Rejected | UnknownKind:
    """Decode a Kubernetes or Istio object of the cluster. `origin` says where it was read."""
    api_version, kind_name = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind_name, str) or not api_version or not kind_name:
        missing = "kind" if isinstance(api_version, str) and api_version else "apiVersion"
        reason = "missing" if document.get(missing) is None else "expected a string"
        return Rejected(
            origin=origin, key=None, path=missing, reason=reason, hint="every object has apiVersion and kind"
        )
    kind = find_kind(api_version, kind_name)
    if kind is None:
        return UnknownKind(api_version=api_version, kind=kind_name, origin=origin)
    return _decode_known(kind, document, origin, cluster)


def decode_mesh_config(document: Mapping[str, object], origin: Origin, cluster: str) -> Decoded | Rejected:
    """Decode a MeshConfig, laid over the defaults (networking.md §0.3); an empty document is the default mesh."""
    key = ObjectKey(cluster, MESH_CONFIG.name, "", "mesh")
    return _decode_spec(MESH_CONFIG, key, Metadata(), document, origin)


def decode_mesh_networks(document: Mapping[str, object], origin: Origin, cluster: str) -> Decoded | Rejected:
    """Decode a MeshNetworks."""
    key = ObjectKey(cluster, MESH_NETWORKS.name, "", "networks")
    return _decode_spec(MESH_NETWORKS, key, Metadata(), document, origin)


def _decode_known(kind: Kind, document: Mapping[str, object], origin: Origin, cluster: str) -> Decoded | Rejected:
    try:
        metadata = _read_metadata(document)
    except Malformed as fault:
        return _rejected(fault, origin, None)
    namespace = (metadata.namespace or DEFAULT_NAMESPACE) if kind.namespaced else ""
    return _decode_spec(kind, ObjectKey(cluster, kind.name, namespace, metadata.name), metadata, document, origin)


def _read_metadata(document: Mapping[str, object]) -> Metadata:
    written = document.get("metadata")
    if written is None:
        raise Malformed((None, ".metadata"), "missing", "every object has a name: metadata.name")
    metadata = compile_message(Metadata).read(written, (None, ".metadata"), Notes(unknown_fields=False))
    assert isinstance(metadata, Metadata)
    if not metadata.name:
        raise Malformed(((None, ".metadata"), ".name"), "missing", "every object has a name")
    return metadata


def _decode_spec(
    kind: Kind, key: ObjectKey, metadata: Metadata, document: Mapping[str, object], origin: Origin
) -> Decoded | Rejected:
    notes = Notes(unknown_fields=kind.family is not Family.KUBERNETES)
    try:
        spec = read_document(kind.spec, document, kind.root, notes)
    except Malformed as fault:
        return _rejected(fault, origin, key)
    if kind.family is Family.ISTIO:
        _note_strays(kind, document, notes)
    remarks = [
        Remark(origin=origin, key=key, path=render(note.place), reason=note.reason, hint=note.hint)
        for note in notes.found
    ]
    return Decoded(object=_assemble(kind, key, metadata, _finished(spec), origin), remarks=tuple(remarks))


def _note_strays(kind: Kind, document: Mapping[str, object], notes: Notes) -> None:
    """Remark fields beside `spec`: often the spec's own, one level too high."""
    known = compile_message(kind.spec).names
    for name in document:
        if name in known:
            notes.found.append(Note((None, f".{name}"), "unknown field", f"did you mean spec.{name}?"))
        elif name not in _ENVELOPE:
            notes.unknown_field(None, name, _ENVELOPE)


def _finished(spec: object) -> object:
    """Lists of the mesh configuration that are merged with those of the defaults (networking.md §0.3)."""
    if not isinstance(spec, MeshConfig):
        return spec
    return replace(
        spec,
        extension_providers=with_built_in_providers(spec.extension_providers),
        trust_domain_aliases=tuple(sorted(set(spec.trust_domain_aliases))),
    )


def _assemble(kind: Kind, key: ObjectKey, metadata: Metadata, spec: object, origin: Origin) -> AnyObject:
    unknown_age = -inf if kind.family is Family.KUBERNETES else inf
    created = unknown_age if metadata.creation_timestamp is None else metadata.creation_timestamp
    annotations = {name: text for name, text in metadata.annotations.items() if name != LAST_APPLIED}
    return ConfigObject(
        key=key,
        labels=metadata.labels,
        annotations=annotations,
        created=created,
        resource_version=metadata.resource_version,
        spec=spec,
        digest=_digest(metadata.labels, annotations, created, spec),
        origin=origin,
    )


def _digest(*parts: object) -> bytes:
    """A digest of what was read. What nobody reads (a Pod's image, a heartbeat) does not make an object another.

    The representation of a spec names every field, and maps are kept in the order of their keys.
    """
    return blake2b(repr(parts).encode(), digest_size=16).digest()


def _rejected(fault: Malformed, origin: Origin, key: ObjectKey | None) -> Rejected:
    return Rejected(origin=origin, key=key, path=render(fault.place), reason=fault.reason, hint=fault.hint)
