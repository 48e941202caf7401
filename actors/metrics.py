"""The metrics, with istiod's names where it has them (xds-server.md §10.1). Made by the wiring, given to the actors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from actors.listed_gauge import ListedGauge
from actors.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

MetricT = TypeVar("MetricT", bound=MetricWrapperBase)

_SECONDS = (0.01, 0.1, 0.5, 1, 3, 5, 10, 20, 30)
_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
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


class MetricsRegistry(CollectorRegistry):
    """Knows all metrics, and makes them."""

    def counter(self, name: str, about: str, *labels: str) -> Counter:
        """A metric that only grows."""
        return Counter(name, about, labels, registry=self)

    def gauge(self, name: str, about: str, *labels: str) -> Gauge:
        """A metric that says how things are now."""
        return Gauge(name, about, labels, registry=self)

    def list(self, name: str, about: str, *labels: str) -> ListedGauge:
        """A metric that lists what is so now."""
        listed = ListedGauge(name, about, *labels)
        self.register(listed)
        return listed

    def tally(self, name: str, about: str, label: str) -> Tally:
        """A metric that says how many there are of each sort."""
        tally = Tally(name, about, label)
        self.register(tally)
        return tally

    def histogram(self, name: str, about: str, *labels: str, buckets: Sequence[float] = _SECONDS) -> Histogram:
        """A metric that says how many were how large."""
        return Histogram(name, about, labels, buckets=buckets, registry=self)


class Metrics:
    """One registry and everything in it. Attributes are named for what they count."""

    def __init__(self) -> None:
        self.registry = registry = MetricsRegistry()
        self._add_configuration(registry)
        self._add_pushes(registry)
        self._add_streams(registry)
        self._add_actors(registry)
        self._add_identity(registry)

    def _add_configuration(self, new: MetricsRegistry) -> None:
        """From a change to the snapshot that has it."""
        self.inbound_updates = new.counter("pilot_inbound_updates", "Changes that came in", "type")
        self.rejected_configs = new.list(
            "pilot_total_rejected_configs", "Documents that are not in force", "type", "name"
        )
        self.debounce_time = new.histogram("pilot_debounce_time", "From the first change to the snapshot")
        self.snapshot_time = new.histogram("pilot_pushcontext_init_seconds", "Time to build a snapshot")
        self.services = new.gauge("pilot_services", "Services known")
        self.virtual_services = new.gauge("pilot_virt_services", "Virtual services known")
        self.key_fetches = new.counter(
            "pilot_jwks_resolver_network_fetch_success", "Key sets of token issuers that were fetched"
        )
        self.failed_key_fetches = new.counter(
            "pilot_jwks_resolver_network_fetch_fail", "Key sets of token issuers that were not"
        )

    def _add_pushes(self, new: MetricsRegistry) -> None:
        """From the snapshot to the last byte. What every push counts is looked up once for each label."""
        self.memo_lookups = new.counter("trierarch_memo_lookups", "Units of generation that were asked for", "result")
        self.push_triggers = Labelled(new.counter("pilot_push_triggers", "Pushes to proxies by reason", "type"))
        self.queue_time = new.histogram("pilot_proxy_queue_time", "From the snapshot to the grant of a push")
        self.convergence_time = new.histogram("pilot_proxy_convergence_time", "From the snapshot to the last byte")
        self.pushes = Labelled(new.counter("pilot_xds_pushes", "Responses sent", "type"))
        self.config_size = Labelled(
            new.histogram("pilot_xds_config_size_bytes", "Size of responses", "type", buckets=_SIZES)
        )

    def _add_streams(self, new: MetricsRegistry) -> None:
        """Who is connected, and what is wrong with what they say."""
        self.connected = new.tally("pilot_xds", "Connected clients", "version")
        self.expired_nonces = new.counter("pilot_xds_expired_nonce", "Requests with a stale nonce", "type")
        self.rejects = new.counter("pilot_total_xds_rejects", "Responses that a client rejected", "type")
        self.internal_errors = new.counter("pilot_total_xds_internal_errors", "Streams that ended by an error of ours")
        self.largest_request = new.gauge("pilot_xds_recv_max", "Largest request in bytes")
        self._largest_request = 0

    def _add_actors(self, new: MetricsRegistry) -> None:
        """How the program itself is."""
        self.restarts = new.counter("trierarch_actor_restarts", "Restarts of actors", "actor")
        self.contained_errors = new.counter(
            "trierarch_contained_errors", "Errors of ours that cost a piece of work only", "work"
        )
        self.collection_time = new.histogram(
            "trierarch_collection_seconds", "Pauses for collecting garbage", buckets=_PAUSES
        )

    def _add_identity(self, new: MetricsRegistry) -> None:
        """The certificate authority's, with the names of istiod's."""
        self.root_expiry = new.gauge(
            "citadel_server_root_cert_expiry_timestamp", "When the first root expires, unix time"
        )
        self.chain_expiry = new.gauge(
            "citadel_server_cert_chain_expiry_timestamp", "When the signer or its chain expires, unix time"
        )
        self.csrs = new.counter("citadel_server_csr_count", "Signing requests that came in")
        self.unauthenticated = new.counter(
            "citadel_server_authentication_failure_count", "Callers who could not prove who they are"
        )
        self.bad_csrs = new.counter("citadel_server_csr_parsing_err_count", "Signing requests that could not be read")
        self.unsigned_csrs = new.counter(
            "citadel_server_csr_sign_err_count", "Signing requests that were not signed", "error"
        )
        self.certificates_issued = new.counter(
            "citadel_server_success_cert_issuance_count", "Signing requests that were signed"
        )

    def note_request_size(self, size: int) -> None:
        """Remember the largest request so far, in bytes."""
        if size > self._largest_request:
            self._largest_request = size
            self.largest_request.set(size)
