"""Our one client: a unary call over TLS to our own server, and what it says when that goes wrong."""

from __future__ import annotations

import ssl

import pytest

from actors.grpc.unary import MOST, Call, call_unary
from protocol.errors import RemoteError
from tests.actors.grpc.conftest import METHOD


def call(running, message=b"question", **fields):
    """A call of the server that runs."""
    return Call(**{"address": running.address, "name": "localhost", "method": METHOD, "message": message, **fields})


async def refused(call, context):
    """The error that a call ends with."""
    with pytest.raises(RemoteError) as raised:
        await call_unary(call, context)
    return raised.value


async def test_an_answer(start, tls):
    """The message, the metadata and the certificate reach the handler; its answer comes back."""
    seen = []

    async def answer(stream):
        seen.append((await stream.receive(), stream.metadata["authorization"], stream.peer.identities))
        await stream.send([b"an", b"swer" * 10_000])

    running = await start(answer, tls=tls.server(ask=True))
    question = call(running, metadata={"authorization": "Bearer x"})
    assert await call_unary(question, tls.client(certificate=True)) == b"an" + b"swer" * 10_000
    assert seen == [(b"question", "Bearer x", ("spiffe://cluster.local/ns/default/sa/client",))]


async def test_the_status_of_a_refusal(start, tls):
    """Code and message as the server gave them."""

    async def refuse(_):
        raise RemoteError(7, "100% not you")

    running = await start(refuse, tls=tls.server(ask=False))
    error = await refused(call(running), tls.client(certificate=False))
    assert (error.code, error.message) == (7, "100% not you")


async def test_a_method_that_nobody_serves(start, tls, echo):
    """UNIMPLEMENTED."""
    running = await start(echo, tls=tls.server(ask=False))
    assert (await refused(call(running, method="/other/Method"), tls.client(certificate=False))).code == 12


async def test_an_answer_without_a_message(start, tls):
    """OK alone is no answer."""

    async def nothing(stream):
        await stream.receive()

    running = await start(nothing, tls=tls.server(ask=False))
    assert (await refused(call(running), tls.client(certificate=False))).code == 2


async def test_an_answer_that_is_too_large(start, tls):
    """It is not read to its end."""

    async def flood(stream):
        await stream.send([bytes(MOST + 1)])

    running = await start(flood, tls=tls.server(ask=False))
    error = await refused(call(running), tls.client(certificate=False))
    assert (error.code, str(MOST) in error.message) == (2, True)


async def test_a_server_with_another_name(start, tls, echo):
    """It is not told anything."""
    running = await start(echo, tls=tls.server(ask=False))
    error = await refused(call(running, name="other"), tls.client(certificate=False))
    assert error.code == 14
    assert "other" in error.message


async def test_a_server_that_nobody_vouches_for(start, tls, echo):
    """Nor is this one."""
    running = await start(echo, tls=tls.server(ask=False))
    error = await refused(call(running), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    assert (error.code, "verify failed" in error.message) == (14, True)


async def test_nobody_there(start, tls, echo):
    """UNAVAILABLE, with the address."""
    running = await start(echo)
    running.scope.cancel()
    error = await refused(call(running, address="127.0.0.1:1"), tls.client(certificate=False))
    assert error.code == 14
    assert error.message.startswith("127.0.0.1:1: ")


async def test_a_server_that_is_cancelled(start, tls):
    """Its last word is UNAVAILABLE."""
    running = None

    async def stop(_):
        running.scope.cancel()

    running = await start(stop, tls=tls.server(ask=False))
    assert (await refused(call(running), tls.client(certificate=False))).code == 14
