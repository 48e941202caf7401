"""The TLS that the secure port serves with: how a context is made, and which one new connections get.

The certificate rotor sets it, the secure port reads it, and it outlives both. A connection keeps the context that it
began with, so a certificate is rotated without closing anything.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from protocol.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Iterator

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: forward secrecy and authenticated encryption only. TLS 1.3 has nothing else."""


class ServingTls:
    """What new connections are served with. `available` is set when there is something."""

    def __init__(self) -> None:
        self.available = trio.Event()
        self._context: ssl.SSLContext | None = None

    def change(self, context: ssl.SSLContext) -> None:
        """Serve new connections with this from now on."""
        self._context = context
        self.available.set()

    def current(self) -> ssl.SSLContext:
        """What a new connection is served with. Raises `LocalError` before there is anything."""
        if self._context is None:
            raise LocalError("there is no serving certificate yet")
        return self._context


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCertificate:
    """What a server shows and whom it believes, as PEM. `roots` verify the clients' certificates. If there are lists of
    `revoked` ones, one of whoever issued a client's has to be among them.
    """

    key: bytes = field(repr=False)
    chain: bytes
    roots: bytes
    revoked: bytes = b""


def build_context(certificate: ServingCertificate) -> ssl.SSLContext:
    """A server's context: TLS 1.2 or newer, HTTP/2, and a client's certificate is verified if it gives one.

    Raises ssl.SSLError for what is no certificate, or whose key is another's.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(["h2"])
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=certificate.roots.decode())
    if certificate.revoked:
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        with secret_file(certificate.revoked) as path:
            context.load_verify_locations(path)
    with secret_file(certificate.chain + certificate.key) as path:
        context.load_cert_chain(path)
    return context


@contextmanager
def secret_file(content: bytes) -> Iterator[str]:
    """The path of a file with this content that nobody else can read and that is gone afterwards.

    OpenSSL reads keys, and lists of revoked certificates, from files only. Where the system can, the file is in memory.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("certificate"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
