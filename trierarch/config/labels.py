"""Names of the labels and annotations that the mesh reads (networking.md §9.16, §1.2, §1.4)."""

from __future__ import annotations

# Workloads: Pods and WorkloadEntries
TLS_MODE = "security.istio.io/tlsMode"
TLS_MODE_ISTIO = "istio"
TLS_MODE_DISABLED = "disabled"
CANONICAL_NAME = "service.istio.io/canonical-name"
CANONICAL_REVISION = "service.istio.io/canonical-revision"
APP_KUBERNETES_NAME = "app.kubernetes.io/name"
APP_KUBERNETES_VERSION = "app.kubernetes.io/version"
APP = "app"
VERSION = "version"
WORKLOAD_NAME = "service.istio.io/workload-name"
POD_TEMPLATE_HASH = "pod-template-hash"

# Topology: Pods, Nodes, namespaces, WorkloadEntries
NETWORK = "topology.istio.io/network"
CLUSTER = "topology.istio.io/cluster"
SUBZONE = "topology.istio.io/subzone"
LOCALITY = "topology.istio.io/locality"
LEGACY_LOCALITY = "istio-locality"
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
LEGACY_REGION = "failure-domain.beta.kubernetes.io/region"
LEGACY_ZONE = "failure-domain.beta.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"

# Services
SERVICE_NAME = "kubernetes.io/service-name"
"""On an EndpointSlice: the Service that it belongs to."""
HEADLESS = "service.kubernetes.io/headless"
EXPORT_TO = "networking.istio.io/exportTo"
TRAFFIC_DISTRIBUTION = "networking.istio.io/traffic-distribution"
CANONICAL_SERVICE_ACCOUNTS = "alpha.istio.io/canonical-serviceaccounts"
KUBERNETES_SERVICE_ACCOUNTS = "alpha.istio.io/kubernetes-serviceaccounts"
NODE_SELECTOR = "traffic.istio.io/nodeSelector"
GATEWAY_PORT = "networking.istio.io/gatewayPort"
PERSISTENT_SESSION = "istio.io/persistent-session"
PERSISTENT_SESSION_HEADER = "istio.io/persistent-session-header"
DRAINING = "istio.io/draining"

# ServiceEntries
ENABLE_AUTO_ALLOCATE_IP = "networking.istio.io/enable-autoallocate-ip"
CONNECT_STRATEGY = "istio.io/connect-strategy"
RACE_FIRST_TCP_CONNECT = "RACE_FIRST_TCP_CONNECT"

# WorkloadEntries that registered themselves
HEALTH_CHECKS_ENABLED = "proxy.istio.io/health-checks-enabled"
HEALTHY_CONDITION = "Healthy"

# Others
DRY_RUN = "istio.io/dry-run"
PROXY_CONFIG = "proxy.istio.io/config"
REVISION = "istio.io/rev"
