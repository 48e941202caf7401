"""The metrics, with istiod's names where it has them (xds-server.md §10.1). Made by the wiring, given to the actors."""

from __future__ import annotations

from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

MetricT = TypeVar("MetricT", bound=MetricWrapperBase)

_SECONDS = (0.01, 0.1, 0.5, 1, 3, 5, 10, 20, 30)
_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_SIZES = (1, 1e4, 1e6, 4e6, 1e7, 4e7)


class Labelled(Generic[MetricT]):
    """A metric with one label, for those that every push counts: its children are looked up under a lock only once."""

    def __init__(self, metric: MetricT) -> None:
        self.metric = metric
        self._children: dict[str, MetricT] = {}

    def labels(self, value: str) -> MetricT:
        """The child of that label."""
        child = self._children.get(value)
        if child is None:
            child = self._children[value] = self.metric.labels(value)
        return child


class Metrics:
    """One registry and everything in it. Attributes are named for what they count."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.inbound_updates = Counter("pilot_inbound_updates", "Changes that came in", ["type"], registry=registry)
        self.push_triggers = Labelled(
            Counter("pilot_push_triggers", "Pushes to proxies by reason", ["type"], registry=registry)
        )
        self.debounce_time = Histogram(
            "pilot_debounce_time", "From the first change to the snapshot", buckets=_SECONDS, registry=registry
        )
        self.snapshot_time = Histogram(
            "pilot_pushcontext_init_seconds", "Time to build a snapshot", buckets=_SECONDS, registry=registry
        )
        self.queue_time = Histogram(
            "pilot_proxy_queue_time", "From the snapshot to the grant of a push", buckets=_SECONDS, registry=registry
        )
        self.convergence_time = Histogram(
            "pilot_proxy_convergence_time", "From the snapshot to the last byte", buckets=_SECONDS, registry=registry
        )
        self.pushes = Labelled(Counter("pilot_xds_pushes", "Responses sent", ["type"], registry=registry))
        self.config_size = Labelled(
            Histogram("pilot_xds_config_size_bytes", "Size of responses", ["type"], buckets=_SIZES, registry=registry)
        )
        self.connected = Gauge("pilot_xds", "Connected clients", ["version"], registry=registry)
        self.services = Gauge("pilot_services", "Services known", registry=registry)
        self.virtual_services = Gauge("pilot_virt_services", "Virtual services known", registry=registry)
        self.expired_nonces = Counter(
            "pilot_xds_expired_nonce", "Requests with a stale nonce", ["type"], registry=registry
        )
        self.rejects = Counter(
            "pilot_total_xds_rejects", "Responses that a client rejected", ["type"], registry=registry
        )
        self.internal_errors = Counter(
            "pilot_total_xds_internal_errors", "Streams that ended by an error of ours", registry=registry
        )
        self.contained_errors = Counter(
            "trierarch_contained_errors", "Errors of ours that cost a piece of work only", ["work"], registry=registry
        )
        self.key_fetches = Counter(
            "pilot_jwks_resolver_network_fetch_success",
            "Key sets of token issuers that were fetched",
            registry=registry,
        )
        self.failed_key_fetches = Counter(
            "pilot_jwks_resolver_network_fetch_fail", "Key sets of token issuers that were not", registry=registry
        )
        self.largest_request = Gauge("pilot_xds_recv_max", "Largest request in bytes", registry=registry)
        self.rejected_configs = Gauge(
            "pilot_total_rejected_configs", "Documents that are not in force", ["type", "name"], registry=registry
        )
        self.restarts = Counter("trierarch_actor_restarts", "Restarts of actors", ["actor"], registry=registry)
        self.memo_lookups = Counter(
            "trierarch_memo_lookups", "Units of generation that were asked for", ["result"], registry=registry
        )
        self.collection_time = Histogram(
            "trierarch_collection_seconds", "Pauses for collecting garbage", buckets=_PAUSES, registry=registry
        )
        self._add_identity(registry)
        self._largest_request = 0

    def _add_identity(self, registry: CollectorRegistry) -> None:
        """The certificate authority's, with the names of istiod's."""
        self.root_expiry = Gauge(
            "citadel_server_root_cert_expiry_timestamp", "When the first root expires, unix time", registry=registry
        )
        self.chain_expiry = Gauge(
            "citadel_server_cert_chain_expiry_timestamp", "When the signer or its chain expires", registry=registry
        )
        self.csrs = Counter("citadel_server_csr_count", "Signing requests that came in", registry=registry)
        self.unauthenticated = Counter(
            "citadel_server_authentication_failure_count", "Callers who could not prove who they are", registry=registry
        )
        self.bad_csrs = Counter(
            "citadel_server_csr_parsing_err_count", "Signing requests that could not be read", registry=registry
        )
        self.unsigned_csrs = Counter(
            "citadel_server_csr_sign_err_count", "Signing requests that were not signed", ["error"], registry=registry
        )
        self.certificates_issued = Counter(
            "citadel_server_success_cert_issuance_count", "Signing requests that were signed", registry=registry
        )

    def note_request_size(self, size: int) -> None:
        """Remember the largest request so far, in bytes."""
        if size > self._largest_request:
            self._largest_request = size
            self.largest_request.set(size)
