"""What Istio's agent does beside its proxy, with a real gRPC client: it proves who it is and has its key certified."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from protocol.csr import METHOD, CertificateRequest, decode_response, encode_request

if TYPE_CHECKING:
    from pathlib import Path

    from examples.shop.identities import Identities

NAME = "istiod.istio-system.svc"
PATIENCE = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """A key and what proves it, as PEM texts."""

    key: str
    chain: tuple[str, ...]
    roots: str

    @property
    def leaf(self) -> x509.Certificate:
        """The certificate."""
        return x509.load_pem_x509_certificate(self.chain[0].encode())

    @property
    def identities(self) -> list[str]:
        """The URIs in it."""
        names = self.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return names.get_values_for_type(x509.UniformResourceIdentifier)

    def write(self, folder: Path) -> None:
        """Write `leaf.pem`, `key.pem` and `roots.pem`."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("leaf", "".join(self.chain)), ("key", self.key), ("roots", self.roots)):
            (folder / f"{name}.pem").write_text(text)


def secure_channel(address: str, identities: Identities, certified: Certified | None = None) -> grpc.Channel:
    """A channel to the secure port, with a client certificate if there is one."""
    roots = identities.roots.read_bytes()
    if certified is None:
        credentials = grpc.ssl_channel_credentials(roots)
    else:
        chain = "".join(certified.chain).encode()
        credentials = grpc.ssl_channel_credentials(roots, certified.key.encode(), chain)
    options = [("grpc.ssl_target_name_override", NAME), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.secure_channel(address, credentials, options)


def certify(channel: grpc.Channel, token: str = "", *, wanted: str = "", lifetime: int = 0) -> Certified:
    """Have a new key certified. `wanted`: a name to ask for in the CSR. Raises grpc.RpcError."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if wanted:
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(wanted)])
        csr = csr.add_extension(names, critical=False)
    pem = csr.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    call = channel.unary_unary(METHOD, request_serializer=encode_request, response_deserializer=decode_response)
    said = (("authorization", f"Bearer {token}"), ("clusterid", "Kubernetes")) if token else ()
    *chain, roots = call(CertificateRequest(csr=pem, lifetime=lifetime), timeout=PATIENCE, metadata=said)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certified(key=private.decode(), chain=tuple(chain), roots=roots)


def openssl(*words: object) -> str:
    """What `openssl` says, on both of its outputs."""
    done = subprocess.run(["openssl", *map(str, words)], input=b"", check=False, capture_output=True, timeout=PATIENCE)
    return (done.stdout + done.stderr).decode(errors="replace")
