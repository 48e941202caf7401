"""Secrets for whoever asks: certificates and roots, told apart by how the names are built (networking.md §7.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envoy.extensions.transport_sockets.tls.v3.secret_pb2 import Secret

from protocol.xds.resources import Part, ResourceSet, build_resource
from tests.envoy.certificates import CERTIFICATE, KEY, ROOTS, Authority
from trierarch.envoy.secret_references import WORKLOAD_ROOTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from protocol.xds.resources import Resource

_IDENTITY = "spiffe://cluster.local/ns/sweep/sa/sweep"
_ROOTS_ENDING = "-cacert"
_ROOTS_BEGINNING = "configmap://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """One certificate with its key, and its roots, in PEM; they serve every name."""

    certificate: str
    key: str
    roots: str

    @classmethod
    def issue(cls, folder: Path) -> Secrets:
        """New ones, written into this folder too."""
        authority = Authority()
        authority.issue(_IDENTITY, folder)
        authority.revoke_nothing(folder)
        certificate, key, roots = ((folder / name).read_text() for name in (CERTIFICATE, KEY, ROOTS))
        return cls(certificate=certificate, key=key, roots=roots)

    def build(self, names: Iterable[str]) -> ResourceSet:
        """A secret of the fitting kind for each name."""
        return ResourceSet(Part(map(self._secret, sorted(names))))

    def _secret(self, name: str) -> Resource:
        secret = Secret(name=name)
        if name == WORKLOAD_ROOTS or name.endswith(_ROOTS_ENDING) or name.startswith(_ROOTS_BEGINNING):
            secret.validation_context.trusted_ca.inline_string = self.roots
        else:
            secret.tls_certificate.certificate_chain.inline_string = self.certificate
            secret.tls_certificate.private_key.inline_string = self.key
        return build_resource(name, secret.SerializeToString(deterministic=True))
