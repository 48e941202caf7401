"""How connections to a service are secured (networking.md §2.9): which mode, and the sockets of the mesh's own mTLS.

Theory. A rule may state a mode. Without one, and with auto mTLS, the client does not decide at all: each endpoint is
marked with what it speaks (`load_assignment.py`), and the cluster has a socket for each mark. Where there are no marks,
at an original destination, all endpoints must speak mTLS for it to be used. A proxy without certificates gets no TLS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.cluster.v3 import Cluster, ClusterTransportSocketMatch
from protocol.proto.envoy.config.core.v3 import ProxyProtocolConfig, ProxyProtocolConfigVersion, TransportSocket
from protocol.proto.envoy.extensions.transport_sockets.proxy_protocol.v3 import ProxyProtocolUpstreamTransport
from protocol.proto.envoy.extensions.transport_sockets.raw_buffer.v3 import RawBuffer
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    CommonTlsContext,
    CommonTlsContextCombinedCertificateValidationContext,
    UpstreamTlsContext,
)
from protocol.proto.envoy.type.matcher.v3 import StringMatcher
from protocol.proto.google.protobuf import Struct
from trierarch.config import labels
from trierarch.config.destination_rule import ClientTls, ClientTlsMode, ProxyProtocolVersion
from trierarch.config.peer_authentication import MutualTlsMode
from trierarch.envoy.names import OUTBOUND, ClusterName
from trierarch.envoy.outline import Discovery
from trierarch.envoy.protocol_options import NO_CHECKS, PeerChecks, Version
from trierarch.envoy.secret_references import WORKLOAD_CERTIFICATE, WORKLOAD_ROOTS, workload_secret
from trierarch.envoy.upstream_user_tls import TLS_SOCKET, build_user_context, is_config_map, tls_parameters
from trierarch.envoy.well_known_types import pack, struct
from trierarch.push.model import PortProtocol, Resolution
from trierarch.push.proxy import NO_FILES, ProxyType, SecretSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.config.mesh_config import MeshConfig
    from trierarch.envoy.outline import ClusterOutline
    from trierarch.push.authentication import NamespacePolicies
    from trierarch.push.endpoints import ServiceEndpoints
    from trierarch.push.model import Service
    from trierarch.push.proxy import CertificateFiles

RAW_SOCKET = "envoy.transport_sockets.raw_buffer"
PEER_EXCHANGE = "istio-peer-exchange"
MESH = "istio"
"""Offered in ALPN by every client of the mesh: servers tell mesh TLS from other TLS by it."""


class Certificates(NamedTuple):
    """What of a client decides its TLS. `exchanges`: peer metadata; `rewrites_alpn`: a filter adds the HTTP version;
    `files`: what it shows in place of its own certificate.
    """

    source: SecretSource = SecretSource.NONE
    exchanges: bool = False
    rewrites_alpn: bool = False
    files: CertificateFiles = NO_FILES

    @property
    def in_files(self) -> bool:
        """Whether there are files enough for mutual TLS."""
        return all(self.files)


class Peers(NamedTuple):
    """What is known of a service's endpoints: who they are, whether all of them speak mTLS, and whether policies leave
    it on for most of them.
    """

    accounts: tuple[str, ...] = ()
    all_mutual: bool = False
    allowed: bool = True


NOBODY = Peers()


@dataclass(frozen=True, slots=True)
class Plaintext:
    """No TLS."""


@dataclass(frozen=True, slots=True)
class MeshTls:
    """The mesh's own mTLS. `automatic`: only with endpoints that speak it; `checks`: what the request decides."""

    automatic: bool
    checks: PeerChecks = NO_CHECKS


@dataclass(frozen=True, slots=True)
class UserTls:
    """TLS as a rule describes it. `names`: who may answer, if the rule does not say."""

    settings: ClientTls
    names: tuple[str, ...]


Mode = Plaintext | MeshTls | UserTls


class Security(NamedTuple):
    """What decides the TLS of a cluster, beside its outline."""

    certificates: Certificates
    peers: Peers
    proxy_type: ProxyType
    mesh: MeshConfig


def select_peers(outlines: Iterable[ClusterOutline], endpoints: ServiceEndpoints, policies: NamespacePolicies) -> Peers:
    """What the endpoints of a service tell of it; they are looked at one by one only if some cluster asks for all.

    `policies` are those of the service's namespace: what they say of single workloads shows at their endpoints.
    """
    allowed = policies.modes.default is not MutualTlsMode.DISABLE
    if not any(_asks_for_all(outline) for outline in outlines):
        return Peers(accounts=endpoints.service_accounts, allowed=allowed)
    modes = {endpoint.tls_mode for endpoint in endpoints.endpoints}
    all_mutual = bool(modes) and labels.TLS_MODE_DISABLED not in modes
    return Peers(accounts=endpoints.service_accounts, all_mutual=all_mutual, allowed=allowed)


def select_mode(outline: ClusterOutline, security: Security) -> Mode:
    """The mode of a cluster for a client."""
    if security.certificates.source is SecretSource.NONE:
        return Plaintext()
    tls = outline.policy.tls
    if tls is None:
        return _mesh_mode(outline, security, automatic=True) if _is_automatic(outline, security) else Plaintext()
    match tls.mode:
        case ClientTlsMode.DISABLE:
            return Plaintext()
        case ClientTlsMode.ISTIO_MUTUAL:
            return _mesh_mode(outline, security, automatic=False)
        case ClientTlsMode.SIMPLE | ClientTlsMode.MUTUAL:
            names = outline.service.subject_alt_names
            return UserTls(tls, names) if _may_use(tls, outline, security.proxy_type) else Plaintext()


def _mesh_mode(outline: ClusterOutline, security: Security, *, automatic: bool) -> Mode:
    """The mesh's mTLS; with certificates in files it is as if a rule had named them."""
    if not security.certificates.in_files:
        return MeshTls(automatic, NO_CHECKS if automatic else _checks_of_forward(outline))
    certificate, key, roots = security.certificates.files
    stated = outline.policy.tls or ClientTls(sni=_mesh_sni(outline))
    mutual = ClientTls(
        mode=ClientTlsMode.MUTUAL,
        client_certificate=certificate,
        private_key=key,
        ca_certificates=roots,
        subject_alt_names=stated.subject_alt_names,
        sni=stated.sni,
    )
    return UserTls(mutual, service_identities(outline.service, security.peers, security.mesh))


def _checks_of_forward(outline: ClusterOutline) -> PeerChecks:
    """A cluster that forwards to whom the request names has no name of its own to ask for."""
    tls = outline.policy.tls
    if outline.discovery is not Discovery.DYNAMIC_FORWARD_PROXY or tls is None:
        return NO_CHECKS
    return _checks_of_rule(tls)


def _checks_of_rule(tls: ClientTls) -> PeerChecks:
    """Without a server name in the rule Envoy takes the request's, and checks the certificate against it."""
    if tls.sni:
        return NO_CHECKS
    return PeerChecks(sni=True, certificate=not tls.subject_alt_names and not tls.insecure_skip_verify)


def _is_automatic(outline: ClusterOutline, security: Security) -> bool:
    if security.mesh.enable_auto_mtls is False or outline.service.mesh_external or not security.peers.allowed:
        return False
    return security.peers.all_mutual or not _asks_for_all(outline)


def _asks_for_all(outline: ClusterOutline) -> bool:
    """Whether mTLS is used with all endpoints or none: where they carry no marks, and for headless services."""
    return outline.is_original_destination or outline.service.resolution is Resolution.PASSTHROUGH


def _may_use(tls: ClientTls, outline: ClusterOutline, proxy_type: ProxyType) -> bool:
    """A Secret named by a rule is for gateways, and for sidecars that the rule selects."""
    if not tls.credential_name or is_config_map(tls.credential_name):
        return True
    return proxy_type is ProxyType.ROUTER or (outline.rule is not None and outline.rule.selector is not None)


def select_checks(mode: Mode) -> PeerChecks:
    """What the request decides in a mode."""
    match mode:
        case MeshTls(checks=checks):
            return checks
        case UserTls(settings):
            return _checks_of_rule(settings)
        case Plaintext():
            return NO_CHECKS


def set_transport(cluster: Cluster, outline: ClusterOutline, mode: Mode, version: Version, security: Security) -> None:
    """Set the socket, or the sockets by mark. `version`: of HTTP, which TLS announces."""
    match mode:
        case Plaintext():
            if outline.policy.proxy_protocol is not None:
                cluster.transport_socket = _wrapped(_raw_socket("raw_buffer"), outline)
        case UserTls(settings, names):
            source = security.certificates.source
            context = build_user_context(settings, names, security.mesh, http2=version is Version.HTTP2, source=source)
            cluster.transport_socket = _wrapped(_tls_socket(context), outline)
        case MeshTls(automatic, checks):
            sni = "" if checks.sni else _mesh_sni(outline)
            socket = _wrapped(_tls_socket(_service_context(outline, sni, version, security)), outline)
            if automatic and not outline.is_original_destination:
                cluster.transport_socket_matches = _by_mark(socket, outline)
            else:
                cluster.transport_socket = socket


def any_host_transport(security: Security) -> tuple[TransportSocket | None, PeerChecks]:
    """The TLS towards hosts that nobody defined, as the mesh wants it, and what requests decide of it."""
    tls, source = security.mesh.outbound_traffic_policy.tls, security.certificates.source
    if tls is None or tls.mode is ClientTlsMode.DISABLE or source is SecretSource.NONE:
        return None, NO_CHECKS
    if tls.mode is ClientTlsMode.ISTIO_MUTUAL:
        context = _mesh_context(tls, _alpn(PortProtocol.UNSUPPORTED, Version.AS_CLIENT, security.certificates), source)
    else:
        context = build_user_context(tls, (), security.mesh, http2=False, source=source)
    return _tls_socket(context), _checks_of_rule(tls)


def _by_mark(mutual: TransportSocket, outline: ClusterOutline) -> list[ClusterTransportSocketMatch]:
    """The first that fits an endpoint is used; the last fits all."""
    mark = struct({"tlsMode": labels.TLS_MODE_ISTIO})
    raw = _wrapped(_raw_socket(RAW_SOCKET), outline)
    return [
        ClusterTransportSocketMatch(name="tlsMode-istio", match=mark, transport_socket=mutual),
        ClusterTransportSocketMatch(name="tlsMode-disabled", match=Struct(), transport_socket=raw),
    ]


def _service_context(outline: ClusterOutline, sni: str, version: Version, security: Security) -> UpstreamTlsContext:
    """Istio mTLS with the service accounts of the endpoints. `sni`: the server name unless a rule has one."""
    tls = outline.policy.tls or ClientTls()
    identities = tls.subject_alt_names or service_identities(outline.service, security.peers, security.mesh)
    stated = replace(tls, sni=tls.sni or sni, subject_alt_names=identities)
    alpn = _alpn(outline.port.protocol, version, security.certificates)
    return _mesh_context(stated, alpn, security.certificates.source)


def _mesh_context(tls: ClientTls, alpn: list[str], source: SecretSource) -> UpstreamTlsContext:
    """Istio mTLS: the workload's own certificate, the mesh's roots; the server name and the names of the peers."""
    names = [StringMatcher(exact=name) for name in tls.subject_alt_names]
    return UpstreamTlsContext(
        sni=tls.sni,
        common_tls_context=CommonTlsContext(
            alpn_protocols=alpn,
            tls_params=tls_parameters(None),
            tls_certificate_sds_secret_configs=[workload_secret(WORKLOAD_CERTIFICATE, source)],
            combined_validation_context=CommonTlsContextCombinedCertificateValidationContext(
                default_validation_context=CertificateValidationContext(match_subject_alt_names=names),
                validation_context_sds_secret_config=workload_secret(WORKLOAD_ROOTS, source),
            ),
        ),
    )


def _mesh_sni(outline: ClusterOutline) -> str:
    """By this name gateways between networks find the service."""
    return ClusterName(OUTBOUND, outline.port.number, outline.subset, outline.service.hostname).sni


def service_identities(service: Service, peers: Peers, mesh: MeshConfig) -> tuple[str, ...]:
    """Who may answer for a service: its accounts and stated names, in each trust domain of the mesh (§1.8)."""
    stated = {*peers.accounts, *service.subject_alt_names}
    own = f"spiffe://{mesh.trust_domain}/"
    aliases = [f"spiffe://{alias}/" for alias in mesh.trust_domain_aliases]
    known = {alias + name.removeprefix(own) for name in stated if name.startswith(own) for alias in aliases}
    return tuple(sorted(stated | known))


def _alpn(protocol: PortProtocol, version: Version, certificates: Certificates) -> list[str]:
    """What is offered. Without Istio's filter, which adds the version of each request, it must be said here (§8.2)."""
    if certificates.rewrites_alpn:
        exchange = [PEER_EXCHANGE] if certificates.exchanges else []
        return [*exchange, MESH, "h2"] if version is Version.HTTP2 else [*exchange, MESH]
    if version is Version.HTTP2:
        return ["istio-h2", MESH, "h2"]
    return ["istio-http/1.1", MESH, "http/1.1"] if protocol.is_http else [MESH]


def _tls_socket(context: UpstreamTlsContext) -> TransportSocket:
    return TransportSocket(name=TLS_SOCKET, typed_config=pack(context))


@cache
def _raw_socket(name: str) -> TransportSocket:
    return TransportSocket(name=name, typed_config=pack(RawBuffer()))


def _wrapped(socket: TransportSocket, outline: ClusterOutline) -> TransportSocket:
    """The socket behind a PROXY header, if a rule wants one."""
    wanted = outline.policy.proxy_protocol
    if wanted is None:
        return socket
    first = wanted.version is ProxyProtocolVersion.V1
    version = ProxyProtocolConfigVersion.V1 if first else ProxyProtocolConfigVersion.V2
    header = ProxyProtocolUpstreamTransport(config=ProxyProtocolConfig(version=version), transport_socket=socket)
    return TransportSocket(name="envoy.transport_sockets.upstream_proxy_protocol", typed_config=pack(header))
