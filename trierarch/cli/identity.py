"""`trierarch identity`: keep the key, certificate and roots of a workload in a folder, renewed before they expire.

What Istio's agent does for its proxy, for a stock Envoy or any program that reads files (platform.md §1.5, §1.6). The
key is made here and goes nowhere.
"""

from __future__ import annotations

import random
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

import click
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from actors.grpc.unary import Call, call_unary
from actors.logs import configure_logs, get_logger
from protocol.csr import METHOD, CertificateRequest, decode_response, encode_request
from protocol.errors import RemoteError
from protocol.statuses import DEADLINE_EXCEEDED, FAILED_PRECONDITION
from trierarch.cli.identity_files import CHAIN, KEY, ROOTS, write_identity
from trierarch.envoy.bootstrap import CONTROL_PLANE_NAME
from trierarch.identity.pem import write_key
from trierarch.identity.renewal import seconds_to_renewal
from trierarch.setting_values import parse_duration

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between attempts; the pause doubles from the first to the longest."""

PATIENCE = 30.0
"""Seconds that an attempt may take."""


log = get_logger("identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to ask whom. `lifetime`: seconds, 0 for the authority's default. Files are read for each attempt.

    `roots`: PEM file that verifies the authority, beside the roots that it has given us. `token`: file, or None.
    `provision`: a folder with a certificate and its key that prove who we are, or None.
    """

    folder: Path
    authority: str
    name: str
    roots: Path
    token: Path | None
    provision: Path | None
    cluster: str
    lifetime: int


def _duration(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    try:
        return round(parse_duration(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--folder", required=True, type=_FOLDER, help="where key, certificate and roots are kept")
@click.option("--authority", default="127.0.0.1:15012", show_default=True, help="address of the control plane")
@click.option("--name", default=CONTROL_PLANE_NAME, show_default=True, help="the DNS name in its certificate")
@click.option("--roots", required=True, type=_FILE, help="PEM roots that verify the control plane")
@click.option("--token", type=_FILE, help="file with a token of the workload's service account")
@click.option("--provision", type=_FOLDER, help=f"folder with {CHAIN} and {KEY} that prove who the workload is")
@click.option("--cluster-id", "cluster", default="Kubernetes", show_default=True, help="whose service account it is")
@click.option("--lifetime", default="0", callback=_duration, help="how long a certificate should live, such as 1h")
@click.option("--once", is_flag=True, help="write the files once and end")
def command(once: bool, **options: object) -> None:
    """Keep a workload's identity in files."""
    plan = Plan(**options)  # type: ignore[arg-type] # click has checked each of them
    if plan.token is None and plan.provision is None:
        raise click.UsageError("say what proves who the workload is: --token FILE or --provision DIR")
    configure_logs()
    try:
        trio.run(obtain if once else keep, plan)
    except RemoteError as error:
        raise click.ClickException(error.message) from None


async def keep(plan: Plan) -> None:
    """Obtain identities for ever, each in time; what goes wrong is logged and tried again."""
    pause = FIRST_PAUSE
    while True:
        try:
            renewal = await obtain(plan)
        except RemoteError as error:
            log.warning("identity_refused", code=error.code, reason=error.message)
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        else:
            pause = FIRST_PAUSE
            await trio.sleep(renewal)


async def obtain(plan: Plan) -> float:
    """Obtain an identity and write its files; returns the seconds until the next one is due.

    Raises `RemoteError`, also if our own files cannot be read or written: they too are beyond this program.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        with trio.move_on_after(PATIENCE):
            *chain, roots = decode_response(await call_unary(_call(plan, key), _tls(plan)))
            write_identity(plan.folder, key=write_key(key), chain="".join(chain).encode(), roots=roots.encode())
            return _note(plan, x509.load_pem_x509_certificate(chain[0].encode()))
    except (OSError, ValueError) as error:
        raise RemoteError(FAILED_PRECONDITION, str(error)) from None
    raise RemoteError(DEADLINE_EXCEEDED, f"{plan.authority} did not answer within {PATIENCE:.0f} s")


def _call(plan: Plan, key: ec.EllipticCurvePrivateKey) -> Call:
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    request = CertificateRequest(csr=csr.public_bytes(serialization.Encoding.PEM), lifetime=plan.lifetime)
    metadata = {"clusterid": plan.cluster}
    if plan.token is not None:
        metadata["authorization"] = f"Bearer {plan.token.read_text().strip()}"
    return Call(
        address=plan.authority, name=plan.name, method=METHOD, message=encode_request(request), metadata=metadata
    )


def _tls(plan: Plan) -> ssl.SSLContext:
    """Trust the roots that we were told of, and those that the authority has told us of since."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(plan.roots)
    if (told := plan.folder / ROOTS).exists():
        context.load_verify_locations(told)
    if plan.provision is not None:
        context.load_cert_chain(plan.provision / CHAIN, plan.provision / KEY)
    return context


def _note(plan: Plan, certificate: x509.Certificate) -> float:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    log.info(
        "identity_written",
        folder=str(plan.folder),
        identities=[str(each.value) for each in names],
        expires=certificate.not_valid_after_utc.isoformat(),
    )
    left = certificate.not_valid_after_utc.timestamp() - time.time()
    return seconds_to_renewal(left=left, chance=random.random())
