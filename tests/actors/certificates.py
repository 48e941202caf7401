"""A certificate authority that is played: it issues texts that look like certificates, when a test lets it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import trio

from actors.identity_messages import IssuedIdentity, IssueIdentity
from actors.mailbox import Mailbox
from actors.own_certificate import CertificateTerms

if TYPE_CHECKING:
    from actors.identity_messages import ToAuthority

LIFETIME = 1000.0
"""Seconds that each certificate lives."""

EPOCH = 1_000_000.0
"""The wall clock when trio's stands at 0."""


def wall() -> float:
    """The wall clock."""
    return EPOCH + trio.current_time()


def certificate_terms(authority: Mailbox[ToAuthority] | None = None) -> CertificateTerms:
    """Terms without any chance; nobody reads the mailbox unless it is given."""
    mailbox = Mailbox("authority") if authority is None else authority
    return CertificateTerms(authority=mailbox, wall=wall, chance=lambda: 0.5, cause_ids=count(70))


class PlayedAuthority:
    """Answers each question with a certificate that tells its number and its owner, under `roots`."""

    def __init__(self) -> None:
        self.mailbox: Mailbox[ToAuthority] = Mailbox("authority")
        self.roots, self.number = b"roots 1", 1
        self.issued: list[str] = []

    async def run(self) -> None:
        """Answer for ever."""
        while True:
            question = await self.mailbox.receive()
            assert isinstance(question, IssueIdentity)
            self.answer(question)

    def answer(self, question: IssueIdentity) -> None:
        """Issue what is asked for."""
        self.issued += question.identities
        text = f"{len(self.issued)} of {', '.join(question.identities)}"
        with question.reply as reply:
            reply.answer(
                IssuedIdentity(
                    key_pem=f"key {text}".encode(),
                    chain_pem=f"chain {text}".encode(),
                    roots_pem=self.roots,
                    number=self.number,
                    not_after=wall() + LIFETIME,
                )
            )
