"""What identities cost: a workload's key and certificate over ADS, a caller's token, the secure port's new context.

python bench/identity.py
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import jwt
import trio
from common.table import Table
from cryptography.hazmat.primitives.asymmetric import ec

from actors import authority
from actors.identity_messages import IssuedIdentity, IssueIdentity
from actors.logs import configure_logs
from actors.mailbox import Mailbox, ask
from actors.metrics import Metrics
from actors.serving_tls import ServingCertificate, build_context
from trierarch.envoy.workload_secrets import build_workload_secrets
from trierarch.identity.rules import IssuerRule
from trierarch.identity.tokens import read_keys, verify_token
from trierarch.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.identity_messages import SigningRefused, ToAuthority
    from actors.mailbox import Reply

ROUNDS = 300
RULE = IssuerRule(issuer="", audiences=("istio-ca",))


async def issue(rounds: int) -> tuple[float, IssuedIdentity]:
    """Milliseconds of CPU for an identity from a running authority with an RSA key, and the last one."""
    mail: Mailbox[ToAuthority] = Mailbox("authority")
    ready = trio.Event()
    ready.set()
    run = partial(
        authority.run,
        mail,
        options=authority.options(Settings()),
        memory=authority.Memory(),
        outlets=authority.Outlets(metrics=Metrics(), trust_domain=lambda: "cluster.local"),
        ready=ready,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        issued = await ask(mail, _question)
        started = time.process_time()
        for _ in range(rounds):
            issued = await ask(mail, _question)
        spent = time.process_time() - started
        nursery.cancel_scope.cancel()
    assert isinstance(issued, IssuedIdentity)
    return spent * 1000 / rounds, issued


def _question(reply: Reply[IssuedIdentity | SigningRefused]) -> IssueIdentity:
    return IssueIdentity(identities=("spiffe://cluster.local/ns/shop/sa/web",), reply=reply)


def each(rounds: int, work: Callable[[], object]) -> float:
    """Milliseconds of CPU for one of many."""
    started = time.process_time()
    for _ in range(rounds):
        work()
    return (time.process_time() - started) * 1000 / rounds


def main() -> None:
    """Measure and print."""
    configure_logs("error")
    table = Table("identities")
    spent, issued = trio.run(issue, ROUNDS)
    table.value("key on P-256, certificate signed with RSA 2048", spent, 1.0)
    pem = {"key": issued.key_pem, "chain": issued.chain_pem, "roots": issued.roots_pem}
    table.value("both secrets as resources", each(ROUNDS, partial(build_workload_secrets, **pem)), 0.1)
    key = ec.generate_private_key(ec.SECP256R1())
    public = jwt.get_algorithm_by_name("ES256").to_jwk(key.public_key(), as_dict=True)
    keys = read_keys(json.dumps({"keys": [public]}).encode())
    now = time.time()
    token = jwt.encode({"sub": "system:serviceaccount:shop:web", "aud": ["istio-ca"], "exp": now + 60}, key, "ES256")
    table.value("a caller's token", each(ROUNDS, partial(verify_token, token, RULE, keys, now)), 1.0)
    table.value("a context for the secure port", each(ROUNDS, partial(build_context, ServingCertificate(**pem))), 5.0)
    sys.exit(bool(table.missed))


if __name__ == "__main__":
    main()
