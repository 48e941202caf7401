"""Every flag and environment variable of the control plane, as one frozen value that is parsed once.

A setting is a field; its metadata names the flag and istiod's environment variable, so the command line, the parser and
the reference in `docs/` are made from the same lines. Nothing else in the program reads the environment.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from trierarch.config import labels
from trierarch.identity.rules import IpNetwork, IssuerRule, parse_jwt_rule, parse_networks
from trierarch.push.mesh import Features, KeyFetching
from trierarch.setting_values import (
    parse_address,
    parse_bool,
    parse_clusters,
    parse_duration,
    parse_interval,
    parse_key_fetching,
    parse_key_size,
    parse_names,
    parse_percentage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ValueT = TypeVar("ValueT")


class BadSetting(Exception):  # noqa: N818 - says what is bad, as `Rejected` does
    """A flag or variable that cannot be read; the message names it and says what it should look like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """How a field is set from outside. `flag` and `variable` are "" where there is none."""

    flag: str
    variable: str
    parse: Callable[[str], Any]
    about: str


def automatic_limit(cores: int | None = None) -> int:
    """What 0 means for limits that follow the number of cores (xds-server.md §3.4)."""
    return min(15 + 5 * (cores or os.cpu_count() or 1), 100)


def setting(
    default: ValueT, parse: Callable[[str], ValueT], about: str, *, flag: str = "", variable: str = ""
) -> ValueT:
    """Declare a setting: a dataclass field with its `SettingInfo`."""
    info = SettingInfo(flag=flag, variable=variable, parse=parse, about=about)
    made: ValueT = field(default=default, metadata={"setting": info})
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of `trierarch serve`. Durations in seconds, addresses as HOST:PORT or "" for "off"."""

    config: str = setting("", str, "the folder of mesh configuration", flag="--config", variable="TRIERARCH_CONFIG")
    mesh_config: str = setting("", str, "a file with MeshConfig", flag="--mesh-config")
    networks_config: str = setting("", str, "a file with MeshNetworks", flag="--networks-config")
    clusters: tuple[tuple[str, str], ...] = setting(
        (), parse_clusters, "a folder with the Kubernetes objects of a further cluster", flag="--cluster"
    )
    grpc_addr: str = setting("127.0.0.1:15010", parse_address, "plaintext xDS", flag="--grpc-addr")
    secure_grpc_addr: str = setting(
        "127.0.0.1:15012", parse_address, "xDS and certificates over TLS", flag="--secure-grpc-addr"
    )
    tls_cert_file: str = setting(
        "", str, "certificate of the secure port; else the CA issues it", flag="--tls-cert-file"
    )
    tls_key_file: str = setting("", str, "its private key", flag="--tls-key-file")
    ca_cert_file: str = setting("", str, "roots that verify clients, beside the CA's", flag="--ca-cert-file")
    custom_hosts: tuple[str, ...] = setting(
        (), parse_names, "further names in the secure port's certificate", variable="ISTIOD_CUSTOM_HOST"
    )
    system_namespace: str = setting("istio-system", str, "namespace of the control plane", variable="POD_NAMESPACE")
    revision: str = setting("", str, "revision of the control plane", variable="REVISION")
    ca_server: bool = setting(True, parse_bool, "sign certificates of workloads", variable="ENABLE_CA_SERVER")
    root_ca_dir: str = setting(
        "./etc/cacerts", str, "folder of a plugged-in certificate authority, if there is one", variable="ROOT_CA_DIR"
    )
    ca_folder: str = setting(
        "",
        str,
        "folder where our own root and its key are kept; else it ends with the process",
        flag="--ca-folder",
        variable="TRIERARCH_CA_FOLDER",
    )
    root_lifetime: float = setting(
        3650 * 86400.0, parse_interval, "life of our own root", variable="CITADEL_SELF_SIGNED_CA_CERT_TTL"
    )
    root_key_size: int = setting(
        2048, parse_key_size, "bits of its RSA key", variable="CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE"
    )
    root_check_interval: float = setting(
        3600.0,
        parse_interval,
        "pause between two looks at its age",
        variable="CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL",
    )
    root_grace_percentile: int = setting(
        20,
        parse_percentage,
        "percent of its life that are left when it is renewed",
        variable="CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE",
    )
    root_check_jitter: bool = setting(
        True,
        parse_bool,
        "look at it for the first time at a random moment",
        variable="CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR",
    )
    workload_lifetime: float = setting(
        86400.0, parse_interval, "life of a workload's certificate", variable="DEFAULT_WORKLOAD_CERT_TTL"
    )
    longest_workload_lifetime: float = setting(
        90 * 86400.0, parse_interval, "longest life that it may ask for", variable="MAX_WORKLOAD_CERT_TTL"
    )
    multiroot: bool = setting(
        False, parse_bool, "the plugged-in roots may become more or fewer", variable="ISTIO_MULTIROOT_MESH"
    )
    ca_crl: bool = setting(True, parse_bool, "pass on what the authority has revoked", variable="PILOT_ENABLE_CA_CRL")
    trusted_node_accounts: tuple[str, ...] = setting(
        (),
        parse_names,
        "accounts (NAMESPACE/NAME) that may ask for certificates of the pods on their node",
        variable="CA_TRUSTED_NODE_ACCOUNTS",
    )
    jwt_rule: tuple[IssuerRule, ...] = setting(
        (), parse_jwt_rule, "issuer of OpenID Connect tokens, as JSON", variable="JWT_RULE"
    )
    token_issuer: str = setting("", str, "issuer of Kubernetes' tokens; none: any", variable="TOKEN_ISSUER")
    token_audiences: tuple[str, ...] = setting(
        ("istio-ca",), parse_names, "audiences of Kubernetes' tokens", variable="TOKEN_AUDIENCES"
    )
    token_keys: str = setting(
        "",
        str,
        "file or URL of the keys (JWKS) of Kubernetes' tokens",
        flag="--token-keys",
        variable="TRIERARCH_TOKEN_KEYS",
    )
    trusted_gateways: tuple[IpNetwork, ...] = setting(
        (), parse_networks, "addresses whose word is believed about clients", variable="TRUSTED_GATEWAY_CIDR"
    )
    xds_auth: bool = setting(True, parse_bool, "xDS over TLS needs a certificate or a token", variable="XDS_AUTH")
    xds_identity_check: bool = setting(
        True,
        parse_bool,
        "who has proved an identity must claim it",
        variable="PILOT_ENABLE_XDS_IDENTITY_CHECK",
    )
    http_addr: str = setting("127.0.0.1:8080", parse_address, "readiness and debug pages", flag="--http-addr")
    monitoring_addr: str = setting("127.0.0.1:15014", parse_address, "metrics", flag="--monitoring-addr")
    allow_kill: bool = setting(False, parse_bool, "allow `trierarch kill ACTOR`", flag="--allow-kill")
    strict: bool = setting(False, parse_bool, "refuse to start on a rejected document", flag="--strict")
    log_level: str = setting("info", str, "least level that is logged", flag="--log-level")
    cluster_id: str = setting(
        "Kubernetes", str, "id of the cluster that --config describes", flag="--cluster-id", variable="CLUSTER_ID"
    )
    domain: str = setting("cluster.local", str, "DNS suffix of services", flag="--domain")
    debounce_after: float = setting(
        0.1, parse_duration, "quiet time before a change is pushed", variable="PILOT_DEBOUNCE_AFTER"
    )
    debounce_max: float = setting(
        10.0, parse_duration, "longest time that a change is held back", variable="PILOT_DEBOUNCE_MAX"
    )
    debounce_endpoints: bool = setting(
        True, parse_bool, "hold endpoint changes back too", variable="PILOT_ENABLE_EDS_DEBOUNCE"
    )
    resolve_gateways: bool = setting(
        True,
        parse_bool,
        "look up the names by which gateways between networks are known",
        variable="RESOLVE_HOSTNAME_GATEWAYS",
    )
    push_throttle: int = setting(
        0, int, "large pushes in flight at a time; 0: by the number of cores", variable="PILOT_PUSH_THROTTLE"
    )
    max_requests_per_second: float = setting(
        0.0, float, "new streams a second; 0: by the number of cores", variable="PILOT_MAX_REQUESTS_PER_SECOND"
    )
    cache_size: int = setting(60000, int, "units of generation that are remembered", variable="PILOT_XDS_CACHE_SIZE")
    collects_briefly: bool = setting(
        True,
        parse_bool,
        "collect garbage in passes of a few milliseconds; false: as Python does",
        variable="TRIERARCH_COLLECT_BRIEFLY",
    )
    max_receive_size: int = setting(
        4 * 1024 * 1024, int, "largest request in bytes", variable="ISTIO_GPRC_MAXRECVMSGSIZE"
    )
    max_streams: int = setting(100, int, "streams of one connection", variable="ISTIO_GPRC_MAXSTREAMS")
    keepalive_interval: float = setting(
        30.0, parse_duration, "pause between keepalive pings", variable="GRPC_KEEPALIVE_INTERVAL"
    )
    keepalive_timeout: float = setting(
        10.0, parse_duration, "wait for the answer to a ping", variable="GRPC_KEEPALIVE_TIMEOUT"
    )
    send_unhealthy: bool = setting(
        False, parse_bool, "always send unhealthy endpoints", variable="PILOT_SEND_UNHEALTHY_ENDPOINTS"
    )
    auto_send_unhealthy: bool = setting(
        True,
        parse_bool,
        "send unhealthy endpoints where no health threshold is set",
        variable="PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS",
    )
    eds_for_headless: bool = setting(
        False, parse_bool, "EDS clusters for headless services", variable="PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES"
    )
    multicluster_headless: bool = setting(
        True,
        parse_bool,
        "resolve names of headless services to endpoints of all clusters",
        variable="ENABLE_MULTICLUSTER_HEADLESS",
    )
    dual_stack: bool = setting(False, parse_bool, "dual-stack addresses", variable="ISTIO_DUAL_STACK")
    metadata_exchange: bool = setting(
        True, parse_bool, "metadata exchange filters", variable="PILOT_ENABLE_METADATA_EXCHANGE"
    )
    telemetry_labels: bool = setting(
        True, parse_bool, "telemetry metadata on clusters and endpoints", variable="PILOT_ENABLE_TELEMETRY_LABEL"
    )
    tls_on_sidecar_ingress: bool = setting(
        False, parse_bool, "honour `tls` of Sidecar ingress listeners", variable="ENABLE_TLS_ON_SIDECAR_INGRESS"
    )
    sidecar_use_remote_address: bool = setting(
        False, parse_bool, "use_remote_address on outbound listeners", variable="PILOT_SIDECAR_USE_REMOTE_ADDRESS"
    )
    persistent_session: bool = setting(
        False, parse_bool, "stateful session filters", variable="PILOT_ENABLE_PERSISTENT_SESSION_FILTER"
    )
    session_cookie_label: str = setting(
        labels.PERSISTENT_SESSION,
        str,
        "label of services whose sessions are kept by a cookie, and whose draining endpoints are sent; empty: none",
        variable="PILOT_PERSISTENT_SESSION_LABEL",
    )
    session_header_label: str = setting(
        labels.PERSISTENT_SESSION_HEADER,
        str,
        "label of services whose sessions are kept by a header; empty: none",
        variable="PILOT_PERSISTENT_SESSION_HEADER_LABEL",
    )
    draining_label: str = setting(
        labels.DRAINING, str, "label of workloads that are draining; empty: none", variable="PILOT_DRAINING_LABEL"
    )
    weigh_localities: bool = setting(
        False,
        parse_bool,
        "choose among localities by their weights in every cluster, not only where a setting asks for it",
        variable="ENABLE_LOCALITY_WEIGHTED_LB_CONFIG",
    )
    mongo_filter: bool = setting(
        True, parse_bool, "filters that count what MongoDB is asked", variable="PILOT_ENABLE_MONGO_FILTER"
    )
    redis_filter: bool = setting(
        False, parse_bool, "Redis as a protocol, sharded by key", variable="PILOT_ENABLE_REDIS_FILTER"
    )
    mysql_filter: bool = setting(
        False, parse_bool, "filters that count what MySQL is asked", variable="PILOT_ENABLE_MYSQL_FILTER"
    )
    inbound_listener_merge: bool = setting(
        False,
        parse_bool,
        "inbound chains of services beside those of Sidecar ingress",
        variable="PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE",
    )
    http10: bool = setting(False, parse_bool, "accept HTTP/1.0", variable="PILOT_HTTP10")
    skip_trust_domain_check: bool = setting(
        False,
        parse_bool,
        "accept clients of any trust domain whose roots are known",
        variable="PILOT_SKIP_VALIDATE_TRUST_DOMAIN",
    )
    several_authorizers: bool = setting(
        False,
        parse_bool,
        "a workload may ask several external authorizers",
        variable="PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS",
    )
    jwks_fetching: KeyFetching = setting(  # noqa: RUF009 - an enumeration's member does not change
        KeyFetching.OURS,
        parse_key_fetching,
        "who fetches the keys of token issuers: istiod (or false), hybrid (or true), envoy",
        variable="PILOT_JWT_ENABLE_REMOTE_JWKS",
    )
    jwks_refresh: float = setting(
        1200.0,
        parse_interval,
        "after so long the keys of token issuers are fetched again",
        variable="PILOT_JWT_PUB_KEY_REFRESH_INTERVAL",
    )
    jwks_blocked: tuple[IpNetwork, ...] = setting(
        (),
        parse_networks,
        "address ranges from which no keys are fetched, beside link-local ones",
        variable="BLOCKED_CIDRS_IN_JWKS_URIS",
    )
    jwks_ca_file: str = setting(
        "",
        str,
        "a file with certificates that servers of keys may have, beside the usual ones",
        flag="--jwks-ca-file",
        variable="TRIERARCH_JWKS_CA_FILE",
    )

    @property
    def features(self) -> Features:
        """The switches that change what is generated."""
        return Features(**{item.name: getattr(self, item.name) for item in fields(Features)})


def setting_infos() -> tuple[tuple[str, object, SettingInfo], ...]:
    """All settings in order: field name, default, how it is set."""
    return tuple((item.name, item.default, item.metadata["setting"]) for item in fields(Settings))


def parse_settings(flags: Mapping[str, str], environment: Mapping[str, str]) -> Settings:
    """Flags (by field name, as given) over environment over defaults. Raises `BadSetting`."""
    values: dict[str, Any] = {}
    for name, _, info in setting_infos():
        given = flags.get(name)
        source = info.flag
        if given is None and info.variable:
            given, source = environment.get(info.variable), info.variable
        if given is None:
            continue
        try:
            values[name] = info.parse(given)
        except ValueError as error:
            raise BadSetting(f"{source}: {error}") from None
    return Settings(**values)
