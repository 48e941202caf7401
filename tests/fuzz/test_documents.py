"""Mutated YAML documents: each is in force, reported, or of a kind that nobody knows; and whatever is in force can be
built into a snapshot and encoded.
"""

from __future__ import annotations

from random import Random

import pytest
import yaml

from tests.config.specimens import SPECIMENS
from tests.fuzz.mutation import mutate_document, mutate_text
from tests.push.fixtures import built, scope_of, sidecar, view_in
from trierarch.config.admission import Admitted, Refused
from trierarch.config.folder import Folder, FolderChange, FolderState, update_folder
from trierarch.config.mesh_files import read_mesh_config
from trierarch.config.objects import Origin
from trierarch.config.store import ConfigView
from trierarch.envoy.generate import PARTS, generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.part_cache import PartCache
from trierarch.push.steps import run_steps

FOLDER = Folder(source="files", cluster="Kubernetes")
PATH = "it.yaml"

KUBERNETES = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, annotations: {networking.istio.io/exportTo: "."}, labels: {app: web}}
spec:
  clusterIP: 10.0.0.1
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: tcp-db, port: 5432, protocol: TCP, appProtocol: tcp}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [10.1.0.1], conditions: {ready: true}, targetRef: {kind: Pod, name: web-1, namespace: shop}, zone: z}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}}
spec: {nodeName: n1, serviceAccountName: web, containers: [{name: app, ports: [{containerPort: 8080, name: http}]}]}
status: {phase: Running, podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z1}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: a}, annotations: {networking.istio.io/traffic-distribution: PreferClose}}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Endpoints
  metadata: {name: old, namespace: shop}
  subsets: [{addresses: [{ip: 10.1.0.9, targetRef: {kind: Pod, name: web-1}}], ports: [{name: http, port: 80}]}]
- {apiVersion: v1, kind: Secret, metadata: {name: unknown}}
"""
DOCUMENTS = (*SPECIMENS, *yaml.safe_load_all(KUBERNETES))
CORPUS = tuple(
    yaml.dump(each, sort_keys=False, default_flow_style=flow) for each in DOCUMENTS for flow in (True, False)
)
_LINE_BREAKS = "\n\r\x85\u2028\u2029"


def mutated(random: Random, number: int) -> str:
    """A text with one document that is wrong in its values, in its words, or in both. Its object has a name of its own,
    unless that was changed too.
    """
    if random.random() < 0.7:
        original = random.choice(DOCUMENTS)
        named = {**original, "metadata": {**original.get("metadata", {}), "name": f"it-{number}"}}
        document = mutate_document(random, named, DOCUMENTS)
        text = yaml.dump(document, sort_keys=False, allow_unicode=True, default_flow_style=random.random() < 0.3)
    else:
        text = random.choice(CORPUS)
    return mutate_text(random, text, CORPUS) if random.random() < 0.4 else text


MESH = yaml.safe_load("""
trustDomain: example.org
trustDomainAliases: [old.example.org]
rootNamespace: istio-system
accessLogFile: /dev/stdout
accessLogEncoding: JSON
accessLogFormat: '{"a": "%START_TIME%", "b": {"c": "%REQ(X)%"}}'
connectTimeout: 5s
protocolDetectionTimeout: 100ms
h2UpgradePolicy: UPGRADE
enableAutoMtls: true
enableTracing: true
outboundTrafficPolicy: {mode: ALLOW_ANY}
inboundTrafficPolicy: {mode: PASSTHROUGH}
localityLbSetting: {enabled: true, failover: [{from: r1, to: r2}], failoverPriority: [topology.istio.io/network]}
tcpKeepalive: {probes: 3, time: 10s, interval: 1s}
defaultConfig:
  discoveryAddress: istiod:15012
  concurrency: 2
  tracing: {zipkin: {address: "zipkin:9411"}, sampling: 5, customTags: {a: {literal: {value: b}}}}
  proxyMetadata: {A: b}
  holdApplicationUntilProxyStarts: true
defaultServiceExportTo: ["*"]
defaultVirtualServiceExportTo: ["."]
defaultDestinationRuleExportTo: ["*"]
serviceSettings: [{settings: {clusterLocal: true}, hosts: ["*.a.svc.cluster.local"]}]
discoverySelectors: [{matchLabels: {team: a}}, {matchExpressions: [{key: b, operator: In, values: [c]}]}]
defaultHttpRetryPolicy: {attempts: 2, retryOn: "5xx", perTryTimeout: 1s}
pathNormalization: {normalization: MERGE_SLASHES}
meshMTLS: {minProtocolVersion: TLSV1_3}
extensionProviders:
- {name: zipkin, zipkin: {service: zipkin.shop.svc.cluster.local, port: 9411}}
- {name: otel, opentelemetry: {service: otel.shop.svc.cluster.local, port: 4317}}
- {name: log, envoyFileAccessLog: {path: /dev/stdout, logFormat: {labels: {a: "%PROTOCOL%"}}}}
- {name: als, envoyHttpAls: {service: als.shop.svc.cluster.local, port: 8080, logName: x}}
- {name: authz, envoyExtAuthzHttp: {service: auth.shop.svc.cluster.local, port: 80, timeout: 1s}}
defaultProviders: {tracing: [zipkin], accessLogging: [log]}
""")


def read(state: FolderState, text: str) -> tuple[FolderState, FolderChange]:
    """The folder after its one file has this text."""
    data = text.encode("utf-8", "surrogatepass")
    return run_steps(update_folder(FOLDER, state, {PATH: data}))


def play(seed: int, cases: int, together: int) -> dict[str, int]:
    """Read so many mutated documents; build what is in force of each few. How many came to what."""
    random, outcomes = Random(seed), {"in force": 0, "reported": 0, "unknown": 0, "empty": 0}
    view = ConfigView()
    for number in range(cases):
        text = mutated(random, number)
        state, change = read(FolderState(), text)
        outcomes[_outcome(state, change, text)] += 1
        view, _ = view.apply(change.upserts, ())
        if number % together == together - 1:
            build(view)
            view = ConfigView()
    return outcomes


def _outcome(state: FolderState, change: FolderChange, text: str) -> str:
    """What came of a text. Every document in it has a verdict, and every verdict that refuses says why, and where."""
    lines = sum(map(text.count, _LINE_BREAKS)) + 1
    for finding in (*change.rejected, *change.remarks):
        assert finding.reason
        assert 1 <= finding.origin.line <= lines + 1, (finding, lines)
    if change.upserts:
        return "in force"
    if change.rejected:
        return "reported"
    if change.unknown_kinds:
        return "unknown"
    verdicts = [verdict for judged in state.files[PATH].judged.values() for verdict in judged.verdicts]
    assert not verdicts, (verdicts, text)
    return "empty"


def build(view: ConfigView) -> None:
    """Build the snapshot of a view, and all that two proxies are sent."""
    context = built(view)
    for proxy in (sidecar(), sidecar("other", "bank", "10.1.0.7", LABELS={"app": "pay"})):
        of, scope, memo, parts = view_in(proxy, context), scope_of(proxy, context), Memo(100_000), PartCache()
        for url in PARTS:
            run_steps(generate(of, scope, context, url, memo, parts))


def test_mutated_documents() -> None:
    """A few hundred: nothing is raised, and all outcomes occur."""
    outcomes = play(1, 600, together=60)
    assert min(outcomes["in force"], outcomes["reported"], outcomes["unknown"]) > 20, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_mutated_documents(seed) -> None:
    """A thousand for each seed, built forty at a time."""
    assert sum(play(100 + seed, 1000, together=40).values()) == 1000


def play_meshes(seed: int, cases: int) -> dict[str, int]:
    """Read so many mutated MeshConfigs, and build a mesh of services with each that is in force."""
    random, outcomes = Random(seed), {"in force": 0, "reported": 0}
    services = [each for text in CORPUS[::2] for each in read(FolderState(), text)[1].upserts]
    origin = Origin(source="mesh", path="mesh.yaml")
    for _ in range(cases):
        text = yaml.dump(mutate_document(random, MESH, (MESH, *DOCUMENTS), most=2), allow_unicode=True)
        match read_mesh_config(text.encode("utf-8", "surrogatepass"), origin, "Kubernetes"):
            case Admitted(object=mesh):
                outcomes["in force"] += 1
                build(ConfigView().apply((*services, mesh), ())[0])
            case Refused(findings=findings):
                outcomes["reported"] += 1
                assert all(each.reason for each in findings)
    return outcomes


def test_mutated_mesh_configs() -> None:
    """A few dozen: nothing is raised, and both outcomes occur."""
    assert min(play_meshes(1, 60).values()) > 5


@pytest.mark.slow
def test_many_mutated_mesh_configs() -> None:
    """Five hundred."""
    assert sum(play_meshes(2, 500).values()) == 500


def test_unmutated_documents_are_fine() -> None:
    """What the mutations begin with is in force, as a whole too."""
    view = ConfigView()
    for text in CORPUS:
        _, change = read(FolderState(), text)
        assert not change.rejected
        assert bool(change.upserts)
        view, _ = view.apply(change.upserts, ())
    build(view)
