"""Everything that a case of traffic needs, running: programs, a control plane, two sidecars; one case after another.

`front` speaks delta, `back` state of the world. The whole mesh is one file: a case is one edit of it.
"""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING

import yaml

from examples.shop.processes import ControlPlane, Sidecar, wait_until
from tests.conformance.yaml_documents import load_documents
from tests.e2e.envoy_admin import read_statistics
from tests.e2e.mesh_objects import key_of
from tests.e2e.shops import next_network
from tests.e2e.traffic.base import (
    CLIENTS,
    HTTP2_PROGRAMS,
    HTTP_PROGRAMS,
    HTTPS_PROGRAMS,
    MARKER,
    PROGRAM_PORT,
    TCP_PROGRAMS,
    TLS_PROGRAMS,
    build_base,
    build_marker,
)
from tests.e2e.traffic.checks import TCP_PORT, TLS_PORT, HttpRequest
from tests.e2e.traffic.client import send, send_all
from tests.e2e.traffic.programs import Programs
from tests.e2e.traffic.rules import expand
from tests.envoy.certificates import CERTIFICATE, KEY, ROOTS, Authority

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import ExitStack
    from pathlib import Path

    from tests.e2e.mesh_objects import Document
    from tests.e2e.traffic.checks import Case, Check

NO_CASE = "no case"
"""What the marker says of the base mesh alone."""

SOON = 5.0
"""Seconds within which a copy has arrived."""

PROTOCOLS = {"front": "delta", "back": "sotw"}


class Town:
    """The running pieces; all end with `stack`. Logs are in `folder`."""

    def __init__(self, folder: Path, envoy: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.network = next_network()
        self._files = folder / "certificates"
        self._config = folder / "mesh"
        self._config.mkdir()
        self.programs = Programs(stack)
        self._start_programs(Authority())
        self._write([*build_base(), build_marker(NO_CASE)])
        self.control_plane = stack.enter_context(ControlPlane(self._config, folder / "trierarch.log", self.network))
        self.control_plane.wait_until_ready()
        self.addresses = {name: f"{self.network}.{number}" for name, number in CLIENTS.items()}
        self.sidecars = [
            stack.enter_context(
                Sidecar(
                    envoy,
                    self.control_plane.xds,
                    folder,
                    app=name,
                    address=address,
                    mode=PROTOCOLS[name],
                    TRIERARCH_SDS="files",
                )
            )
            for name, address in self.addresses.items()
        ]
        self._wait_for_marker(NO_CASE)

    def settle(self, case: Case) -> None:
        """Let a case be in force: both sidecars have acknowledged its push, and their threads act by it."""
        edited_at = self._write([*build_base(), build_marker(case.name)], load_documents(self._local(case.mesh)))
        for sidecar in self.sidecars:
            self.control_plane.wait_for_ack(edited_at, sidecar.id)
        self._wait_for_marker(case.name)

    def complaints(self, case: Case) -> list[str]:
        """What of a case that is in force is not as expected."""
        return [complaint for check in case.checks for complaint in self._try(check)] + self._refusals()

    def _wait_for_marker(self, text: str) -> None:
        for name, address in self.addresses.items():
            wait_until(f"{name} acts by {text!r}", lambda each=address: _read_marker(each) == text)

    def _try(self, check: Check) -> list[str]:
        complaints = check.complaints(send_all(check, self.addresses))
        if check.copied_to:
            try:
                wait_until("the copy", lambda: self._has_seen(check.copied_to, check.request.path), SOON)
            except TimeoutError:
                complaints.append(f"{check.request}: no copy to {check.copied_to}")
        return complaints

    def _has_seen(self, program: str, path: str) -> bool:
        return any((each.program, each.path) == (program, path) for each in self.programs.journal.seen)

    def _refusals(self) -> list[str]:
        """What an Envoy or the control plane has rejected so far."""
        lines = [f"{line['object']}: {line['reason']}" for line in self.control_plane.logged("object_rejected")]
        for sidecar in self.sidecars:
            rejected = read_statistics(sidecar, "update_rejected")
            lines += [f"{sidecar.id}: {name} {count}" for name, count in rejected.items() if count]
        return lines

    def _start_programs(self, authority: Authority) -> None:
        """All programs. Those with certificates have them from one authority, and so do clients (`client`)."""
        self._issue(authority, "client")
        self._issue(Authority(), "stranger")
        for name, number in HTTP_PROGRAMS.items():
            self.programs.serve_http(name, f"{self.network}.{number}", PROGRAM_PORT)
        for name, number in HTTP2_PROGRAMS.items():
            self.programs.serve_http2(name, f"{self.network}.{number}", PROGRAM_PORT)
        for name, number in HTTPS_PROGRAMS.items():
            context = _build_context(self._issue(authority, name, f"{name}.example"), strict=name == "strict")
            self.programs.serve_https(name, f"{self.network}.{number}", PROGRAM_PORT, context)
        for name, number in TCP_PROGRAMS.items():
            self.programs.serve_tcp(name, f"{self.network}.{number}", TCP_PORT)
        for name, number in TLS_PROGRAMS.items():
            context = _build_context(self._issue(authority, name))
            self.programs.serve_tls(name, f"{self.network}.{number}", TLS_PORT, context)
        self._partner_port = self.programs.serve_http("partner", "127.0.0.1", 0)

    def _issue(self, authority: Authority, name: str, *hosts: str) -> Path:
        """Certificates of a name; returns their folder."""
        folder = self._files / name
        authority.issue(f"spiffe://cluster.local/ns/shop/sa/{name}", folder, *hosts)
        return folder

    def _write(self, base: Iterable[Document], more: Iterable[Document] = ()) -> float:
        """Put the whole mesh in place; returns the wall clock time before."""
        objects = {key_of(each): each for each in (*base, *map(_completed, more))}
        draft = self._config / ".draft"
        draft.write_text(self._local(yaml.safe_dump_all(objects.values())))
        before = time.time()
        draft.rename(self._config / "mesh.yaml")
        return before

    def _local(self, text: str) -> str:
        return expand(text, self.network, self._partner_port, self._files)


def _read_marker(address: str) -> str:
    """What a sidecar says of the case in force; "" before it listens."""
    try:
        return send(HttpRequest(host=MARKER), address).body
    except ConnectionError:
        return ""


def _completed(document: Document) -> Document:
    """What cases leave out: they are in `shop`, and most objects are of one group."""
    metadata = {"namespace": "shop", **document["metadata"]}
    return {"apiVersion": "networking.istio.io/v1", **document, "metadata": metadata}


def _build_context(folder: Path, *, strict: bool = False) -> ssl.SSLContext:
    """The TLS of a program with the certificates in a folder; `strict`: it demands its clients' too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    if strict:
        context.load_verify_locations(folder / ROOTS)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
