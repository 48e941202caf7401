"""What istiod's validation demands of a DestinationRule and of the policies in it."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

from trierarch.config.checks import (
    EXPORT_PRIVATE,
    check_distinct,
    check_duration,
    check_export_to,
    check_host,
    check_keepalive,
    check_labels,
    check_not_negative,
    check_one_line,
    check_optional_duration,
    check_percentage,
    check_port,
    check_selector,
    check_subset_name,
    check_wildcard_host,
)
from trierarch.config.destination_rule import (
    ClientTlsMode,
    ConsistentHash,
    H2UpgradePolicy,
    HashHttpCookie,
    HashHttpHeader,
    HashQueryParameter,
    Maglev,
    RingHash,
)
from trierarch.config.hosts import is_ip_address
from trierarch.config.validate_locality import check_locality, check_zone_aware
from trierarch.config.violations import Caution, Complaints, Violation

if TYPE_CHECKING:
    from trierarch.config.destination_rule import (
        ClientTls,
        ConnectionPool,
        DestinationRule,
        HttpPool,
        LoadBalancer,
        OutlierDetection,
        PortTrafficPolicy,
        TcpPool,
        TrafficPolicy,
        Tunnel,
        Warmup,
    )
    from trierarch.config.objects import ConfigObject


_LARGEST_TABLE, _LARGEST_RING = 5_000_011, 8 * 1024 * 1024


def check_destination_rule(subject: ConfigObject[DestinationRule]) -> Complaints:
    """Everything about one DestinationRule."""
    spec = subject.spec
    if not is_ip_address(spec.host):
        yield from check_wildcard_host("spec.host", spec.host)
    yield from _check_policy("spec.trafficPolicy", spec.traffic_policy)
    yield from check_distinct("spec.subsets", (subset.name for subset in spec.subsets), "subset")
    for index, subset in enumerate(spec.subsets):
        path = f"spec.subsets[{index}]"
        if subset.name:
            yield from check_subset_name(f"{path}.name", subset.name)
        else:
            yield Violation(f"{path}.name", "the name of the subset is missing")
        yield from check_labels(f"{path}.labels", subset.labels)
        yield from _check_policy(f"{path}.trafficPolicy", subset.traffic_policy)
    yield from check_export_to("spec.exportTo", spec.export_to, subject.key.namespace)
    yield from _check_selector(spec, subject.key.namespace)


def _check_selector(spec: DestinationRule, own: str) -> Complaints:
    if spec.workload_selector is None:
        return
    yield from check_selector("spec.workloadSelector.matchLabels", spec.workload_selector.match_labels)
    if any(namespace not in (EXPORT_PRIVATE, own) for namespace in spec.export_to):
        yield Violation("spec.exportTo", "a rule with a workloadSelector counts in its own namespace only", 'use ["."]')


def _check_policy(path: str, policy: TrafficPolicy | None) -> Complaints:
    if policy is None:
        return
    parts = (policy.load_balancer, policy.connection_pool, policy.outlier_detection, policy.tls, policy.tunnel)
    if not any((*parts, policy.port_level_settings, policy.proxy_protocol, policy.retry_budget)):
        yield Violation(path, "a traffic policy without any setting")
    yield from _check_common(path, policy)
    for index, settings in enumerate(policy.port_level_settings):
        here = f"{path}.portLevelSettings[{index}]"
        yield from check_port(f"{here}.port.number", settings.port.number if settings.port else 0)
        yield from _check_common(here, settings)
    yield from _check_tunnel(f"{path}.tunnel", policy.tunnel)
    if policy.retry_budget is not None:
        yield from check_percentage(f"{path}.retryBudget.percent", policy.retry_budget.percent or 0)
        yield from check_optional_duration(f"{path}.retryBudget.budgetInterval", policy.retry_budget.budget_interval)


def _check_common(path: str, policy: TrafficPolicy | PortTrafficPolicy) -> Complaints:
    yield from check_connection_pool(f"{path}.connectionPool", policy.connection_pool)
    yield from _check_load_balancer(f"{path}.loadBalancer", policy.load_balancer, policy.outlier_detection)
    yield from check_outlier_detection(f"{path}.outlierDetection", policy.outlier_detection)
    yield from check_client_tls(f"{path}.tls", policy.tls)


def check_connection_pool(path: str, pool: ConnectionPool | None) -> Complaints:
    """Limits of connections; an empty pool is a mistake."""
    if pool is None:
        return
    if pool.tcp is None and pool.http is None:
        yield Violation(path, "one of tcp and http is required")
    if pool.tcp is not None:
        yield from _check_tcp_pool(f"{path}.tcp", pool.tcp)
    if pool.http is not None:
        yield from _check_http_pool(f"{path}.http", pool.http)


def _check_tcp_pool(path: str, tcp: TcpPool) -> Complaints:
    yield from check_not_negative(path, maxConnections=tcp.max_connections)
    yield from check_duration(f"{path}.connectTimeout", tcp.connect_timeout)
    yield from check_duration(f"{path}.maxConnectionDuration", tcp.max_connection_duration)
    yield from check_optional_duration(f"{path}.idleTimeout", tcp.idle_timeout)
    yield from check_keepalive(f"{path}.tcpKeepalive", tcp.tcp_keepalive)


def _check_http_pool(path: str, http: HttpPool) -> Complaints:
    yield from check_not_negative(
        path,
        http1MaxPendingRequests=http.http1_max_pending_requests,
        http2MaxRequests=http.http2_max_requests,
        maxRequestsPerConnection=http.max_requests_per_connection,
        maxRetries=http.max_retries,
        maxConcurrentStreams=http.max_concurrent_streams,
    )
    yield from check_duration(f"{path}.idleTimeout", http.idle_timeout)
    if http.h2_upgrade_policy is H2UpgradePolicy.UPGRADE and http.use_client_protocol:
        yield Violation(f"{path}.useClientProtocol", "cannot be combined with h2UpgradePolicy: UPGRADE")
    if http.http2_keep_alive is not None:
        ping = http.http2_keep_alive
        for field, seconds in (("interval", ping.interval), ("timeout", ping.timeout)):
            here = f"{path}.http2KeepAlive.{field}"
            yield from check_duration(here, seconds)
            if seconds is None:
                yield Violation(here, "is required")


def _check_load_balancer(path: str, balancer: LoadBalancer | None, outlier: OutlierDetection | None) -> Complaints:
    if balancer is None:
        return
    if isinstance(balancer.policy, ConsistentHash):
        yield from _check_hash(f"{path}.consistentHash", balancer.policy)
    if balancer.locality_lb_setting is not None and balancer.zone_aware_lb_setting is not None:
        yield Violation(path, "only one of localityLbSetting and zoneAwareLbSetting is possible")
    yield from check_locality(f"{path}.localityLbSetting", balancer.locality_lb_setting, outlier)
    yield from check_zone_aware(f"{path}.zoneAwareLbSetting", balancer.zone_aware_lb_setting, outlier)
    yield from _check_warmup(f"{path}.warmup", balancer.warmup)
    yield from check_duration(f"{path}.warmupDurationSecs", balancer.warmup_duration_secs)
    if balancer.warmup is not None and balancer.warmup_duration_secs is not None:
        yield Violation(f"{path}.warmupDurationSecs", "only one of warmup and warmupDurationSecs is possible")


def _check_hash(path: str, consistent: ConsistentHash) -> Complaints:
    yield from _check_table(path, consistent)
    match consistent.key:
        case None:
            yield Violation(path, "what is hashed is missing", "such as httpHeaderName or useSourceIp")
        case HashHttpCookie() as cookie:
            yield from _check_cookie(f"{path}.httpCookie", cookie)
        case HashHttpHeader(value=""):
            yield Violation(f"{path}.httpHeaderName", "the name of the header is missing")
        case HashHttpHeader(value=name):
            yield from check_one_line(f"{path}.httpHeaderName", name)
        case HashQueryParameter(value=""):
            yield Violation(f"{path}.httpQueryParameterName", "the name of the parameter is missing")
        case _:
            return


def _check_table(path: str, consistent: ConsistentHash) -> Complaints:
    """Sizes that Envoy takes; there would be no cluster otherwise."""
    match consistent.algorithm:
        case Maglev(table_size=size):
            if size > _LARGEST_TABLE or not _is_prime(size):
                hint = f"a prime up to {_LARGEST_TABLE}, such as 65537"
                yield Violation(f"{path}.maglev.tableSize", f"{size} is not possible", hint)
            return
        case RingHash(minimum_ring_size=size):
            here = f"{path}.ringHash.minimumRingSize"
        case None:
            here, size = f"{path}.minimumRingSize", consistent.minimum_ring_size
    if size > _LARGEST_RING:
        yield Violation(here, f"{size} is more than {_LARGEST_RING}")


def _is_prime(number: int) -> bool:
    """Also of 0, which stands for a size that is not stated."""
    return number == 0 or (number > 1 and all(number % factor for factor in range(2, isqrt(number) + 1)))


def _check_cookie(path: str, cookie: HashHttpCookie) -> Complaints:
    if not cookie.name:
        yield Violation(f"{path}.name", "the name of the cookie is missing")
    yield from check_one_line(f"{path}.name", cookie.name)
    yield from check_one_line(f"{path}.path", cookie.path)
    yield from check_optional_duration(f"{path}.ttl", cookie.ttl)
    yield from check_distinct(f"{path}.attributes", [each.name for each in cookie.attributes], "attribute")
    for index, attribute in enumerate(cookie.attributes):
        if not attribute.name:
            yield Violation(f"{path}.attributes[{index}].name", "the name is missing")
        yield from check_one_line(f"{path}.attributes[{index}].name", attribute.name)
        yield from check_one_line(f"{path}.attributes[{index}].value", attribute.value)


def _check_warmup(path: str, warmup: Warmup | None) -> Complaints:
    if warmup is None:
        return
    yield from check_duration(f"{path}.duration", warmup.duration)
    if warmup.duration is None:
        yield Violation(f"{path}.duration", "is required")
    if warmup.minimum_percent is not None:
        yield from check_percentage(f"{path}.minimumPercent", warmup.minimum_percent)
    if warmup.aggression is not None and warmup.aggression < 1:
        yield Violation(f"{path}.aggression", f"{warmup.aggression:g} is less than 1")


def check_outlier_detection(path: str, outlier: OutlierDetection | None) -> Complaints:
    """When endpoints are ejected."""
    if outlier is None:
        return
    yield from check_duration(f"{path}.interval", outlier.interval)
    yield from check_duration(f"{path}.baseEjectionTime", outlier.base_ejection_time)
    yield from check_percentage(f"{path}.maxEjectionPercent", outlier.max_ejection_percent)
    yield from check_percentage(f"{path}.minHealthPercent", outlier.min_health_percent)
    if outlier.consecutive_local_origin_failures and not outlier.split_external_local_origin_errors:
        yield Violation(
            f"{path}.consecutiveLocalOriginFailures",
            "has no effect on its own",
            "set splitExternalLocalOriginErrors to true",
        )
    if outlier.consecutive_errors:
        yield Caution(f"{path}.consecutiveErrors", "has no effect", "use consecutive5xxErrors")


def check_client_tls(path: str, tls: ClientTls | None) -> Complaints:
    """TLS towards a destination: files or a Secret, and whatever the mode needs."""
    if tls is None:
        return
    if tls.insecure_skip_verify:
        yield from _check_unverified(path, tls)
    files = {"clientCertificate": tls.client_certificate, "privateKey": tls.private_key}
    given = {**files, "caCertificates": tls.ca_certificates, "caCrl": tls.ca_crl}
    if tls.credential_name and tls.mode in (ClientTlsMode.SIMPLE, ClientTlsMode.MUTUAL):
        for field in (field for field, value in given.items() if value):
            yield Violation(f"{path}.{field}", "cannot be combined with credentialName")
    elif tls.mode is ClientTlsMode.MUTUAL:
        for field in (field for field, value in files.items() if not value):
            yield Violation(f"{path}.{field}", "is required for mode MUTUAL")


def _check_unverified(path: str, tls: ClientTls) -> Complaints:
    for field, value in (("caCertificates", tls.ca_certificates), ("subjectAltNames", tls.subject_alt_names)):
        if value:
            yield Violation(f"{path}.{field}", "cannot be combined with insecureSkipVerify")


def _check_tunnel(path: str, tunnel: Tunnel | None) -> Complaints:
    if tunnel is None:
        return
    if tunnel.protocol.upper() not in ("", "CONNECT", "POST"):
        yield Violation(f"{path}.protocol", "only CONNECT and POST are possible")
    if not is_ip_address(tunnel.target_host):
        yield from check_host(f"{path}.targetHost", tunnel.target_host)
    yield from check_port(f"{path}.targetPort", tunnel.target_port)
