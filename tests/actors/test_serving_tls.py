"""The TLS of the secure port: what it insists on, and that a certificate changes while connections go on."""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from actors.grpc import Server
from actors.serving_tls import ServingCertificate, ServingTls, build_context, secret_file
from protocol.errors import LocalError
from tests.envoy.certificates import CERTIFICATE, KEY, ROOTS, Authority

NAME = "istiod.istio-system.svc"
IDENTITY = "spiffe://cluster.local/ns/shop/sa/web"


class Plane:
    """A server with certificates of an authority, and clients that trust it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()
        self.tls = ServingTls()
        self.address = ""
        self.sockets = []
        self.renew(self.authority)

    def renew(self, authority) -> None:
        """Serve with a new certificate."""
        authority.issue(IDENTITY, self.folder / "server", NAME)
        key, chain, roots = ((self.folder / "server" / name).read_bytes() for name in (KEY, CERTIFICATE, ROOTS))
        self.tls.change(build_context(ServingCertificate(key=key, chain=chain, roots=roots)))

    async def start(self, nursery, handler) -> None:
        """Serve one method."""
        server = Server({"/x/y": handler}, tls=self.tls.current, on_crash=pytest.fail)
        self.address = await nursery.start(partial(server.serve, "127.0.0.1:0"))

    def client(self, authority=None, *, trusted=None) -> ssl.SSLContext:
        """A client that trusts the authority `trusted`, with a certificate of `authority` if there is one."""
        (trusted or self.authority).issue(IDENTITY, self.folder / "trusted")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.folder / "trusted" / ROOTS)
        context.set_alpn_protocols(["h2"])
        if authority is not None:
            authority.issue(IDENTITY, self.folder / "client")
            context.load_cert_chain(self.folder / "client" / CERTIFICATE, self.folder / "client" / KEY)
        return context

    async def connect(self, context) -> trio.SSLStream:
        """Shake hands."""
        host, port = self.address.split(":")
        tcp = await trio.open_tcp_stream(host, int(port))
        self.sockets.append(tcp.socket)
        stream = trio.SSLStream(tcp, context, server_hostname=NAME)
        await stream.do_handshake()
        return stream


@pytest.fixture
async def plane(nursery, tmp_path):
    """A server that waits for ever in every call."""
    plane = Plane(tmp_path)
    await plane.start(nursery, lambda _: trio.sleep_forever())
    yield plane
    for sock in plane.sockets:
        sock.close()


async def closed(stream) -> bool:
    """Whether the server ends the connection, rather than to greet."""
    with trio.fail_after(5), suppress(trio.BrokenResourceError):
        return await stream.receive_some(1) == b""
    return True


async def test_a_client_without_a_certificate_is_welcome(plane):
    """It may have a token. HTTP/2 is agreed on, over TLS 1.3."""
    stream = await plane.connect(plane.client())
    assert (stream.selected_alpn_protocol(), stream.version()) == ("h2", "TLSv1.3")
    assert not await closed(stream)


async def test_a_certificate_of_a_stranger_is_refused(plane):
    """Who shows one must show one that verifies."""
    stream = await plane.connect(plane.client(Authority()))
    assert await closed(stream)


async def test_a_certificate_of_our_own_is_verified(plane):
    """And then it is an identity."""
    assert not await closed(await plane.connect(plane.client(plane.authority)))


async def test_old_tls_is_refused(plane):
    """TLS 1.1 is not spoken, whatever the client's library would do."""
    context = plane.client()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(trio.BrokenResourceError) as raised:
        await plane.connect(context)
    assert "protocol" in str(raised.value.__cause__).lower()


async def test_weak_ciphers_of_tls_1_2_are_refused(plane):
    """Without forward secrecy there is no connection; with it there is."""
    context = plane.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert (await plane.connect(context)).version() == "TLSv1.2"
    context.set_ciphers("AES256-SHA:AES128-SHA")
    with pytest.raises(trio.BrokenResourceError):
        await plane.connect(context)


async def test_a_certificate_changes_while_connections_go_on(plane):
    """The old connection still works; a new one is shown the new certificate."""
    context = plane.client()
    old = await plane.connect(context)
    assert await old.receive_some(1) == b"\x00"
    plane.renew(plane.authority)
    new = await plane.connect(context)
    assert new.getpeercert()["serialNumber"] != old.getpeercert()["serialNumber"]
    await old.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000 04 00 00000000"))
    await old.send_all(bytes.fromhex("000008 06 00 00000000") + b"are you?")
    with trio.fail_after(5):
        heard = b""
        while b"are you?" not in heard:
            heard += await old.receive_some()


async def test_other_roots_hold_for_new_connections(plane):
    """A client of the old authority gets in until the roots change, and then no more."""
    old = plane.client(plane.authority)
    assert not await closed(await plane.connect(old))
    successor = Authority()
    plane.renew(successor)
    assert await closed(await plane.connect(plane.client(plane.authority, trusted=successor)))


def test_there_is_nothing_to_serve_with_before_there_is():
    """Whoever asks too early has a bug."""
    with pytest.raises(LocalError):
        ServingTls().current()


def test_a_key_that_is_another_s(tmp_path):
    """It is noticed before anything is served with it."""
    authority = Authority()
    for name in ("a", "b"):
        authority.issue(IDENTITY, tmp_path / name, NAME)
    key, chain, roots = (tmp_path / "a" / KEY, tmp_path / "b" / CERTIFICATE, tmp_path / "b" / ROOTS)
    certificate = ServingCertificate(key=key.read_bytes(), chain=chain.read_bytes(), roots=roots.read_bytes())
    with pytest.raises(ssl.SSLError):
        build_context(certificate)
    assert "PRIVATE" not in repr(certificate)


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_key_is_in_a_file_for_a_moment_only(in_memory, monkeypatch):
    """In memory where the system can, else readable by nobody else; gone afterwards."""
    if not in_memory:
        monkeypatch.delattr("os.memfd_create", raising=False)
    with secret_file(b"content") as path:
        assert Path(path).read_bytes() == b"content"
        assert Path(path).stat().st_mode & 0o077 == (0o077 if in_memory else 0)
    assert not Path(path).exists()
