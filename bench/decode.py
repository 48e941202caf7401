"""How long the first reading of a folder of 3 MB takes, and what one changed document costs then.

    python bench/decode.py

Prints milliseconds of CPU time by stage. The budgets are those of the architecture: the whole folder in 2 s, one
changed document in 1 ms. Exits 1 if one is missed.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from trierarch.config.admission import admit
from trierarch.config.documents import Chunk, parse_document, split_documents
from trierarch.config.folder import Content, Folder, FolderState, Steps, update_folder
from trierarch.config.objects import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Folder(source="bench", cluster="Kubernetes")
ORIGIN = Origin(source=FOLDER.source)
SIZE = 3_000_000
WHOLE_BUDGET, ONE_BUDGET = 2000.0, 1.0

TEMPLATE = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: route-{n}, namespace: shop-{m}, labels: {{team: web}}}}
spec:
  hosts:
  - service-{n}.shop-{m}.svc.cluster.local
  http:
  - match:
    - uri:
        prefix: /api/{n}
      headers:
        x-user:
          exact: someone
    route:
    - destination: {{host: service-{n}, subset: v2, port: {{number: 8080}}}}
      weight: {w}
    - destination: {{host: service-{n}, subset: v1, port: {{number: 8080}}}}
      weight: 90
    timeout: 5s
    retries: {{attempts: 3, perTryTimeout: 2s, retryOn: "5xx,connect-failure"}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: rule-{n}, namespace: shop-{m}}}
spec:
  host: service-{n}.shop-{m}.svc.cluster.local
  trafficPolicy:
    connectionPool: {{tcp: {{maxConnections: 100, connectTimeout: 3s}}, http: {{http2MaxRequests: 1000}}}}
    outlierDetection: {{consecutive5xxErrors: 5, interval: 10s, baseEjectionTime: 30s}}
  subsets:
  - {{name: v1, labels: {{version: v1}}}}
  - {{name: v2, labels: {{version: v2}}}}
---
apiVersion: v1
kind: Service
metadata:
  name: service-{n}
  namespace: shop-{m}
spec:
  clusterIP: 10.{a}.{b}.1
  selector: {{app: service-{n}}}
  ports:
  - name: http
    port: 8080
    targetPort: 8080
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: service-{n}-x, namespace: shop-{m}, labels: {{kubernetes.io/service-name: service-{n}}}}}
addressType: IPv4
ports:
- {{name: http, port: 8080, protocol: TCP}}
endpoints:
- {{addresses: [10.{a}.{b}.2], conditions: {{ready: true}}, nodeName: n1}}
- {{addresses: [10.{a}.{b}.3], conditions: {{ready: true}}, nodeName: n2}}
---
"""


def service(n: int, weight: int = 10) -> str:
    """The objects of one service."""
    return TEMPLATE.format(n=n, m=n % 20, w=weight, a=n // 256, b=n % 256)


def folder() -> dict[str, bytes]:
    """Files of 25 services each, 3 MB together."""
    files: dict[str, bytes] = {}
    while sum(map(len, files.values())) < SIZE:
        start = 25 * len(files)
        files[f"{len(files)}.yaml"] = "".join(service(n) for n in range(start, start + 25)).encode()
    return files


def run(steps: Steps[tuple[FolderState, object]]) -> FolderState:
    """Drive the reading to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            state: FolderState = stop.value[0]
            return state


def milliseconds(work: Callable[[], object], rounds: int = 1) -> float:
    """CPU time of this thread, best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best * 1000


def judge(chunk: Chunk) -> None:
    """Everything that is done about one document."""
    answer = parse_document(chunk, ORIGIN)
    for document in answer if isinstance(answer, tuple) else ():
        admit(document.value, ORIGIN, FOLDER.cluster)


def stages(files: dict[str, bytes]) -> None:
    """Where the time goes."""
    chunks = [chunk for data in files.values() for chunk in split_documents(data, "x.yaml")]
    answers = [parse_document(chunk, ORIGIN) for chunk in chunks]
    parsed = [document for answer in answers if isinstance(answer, tuple) for document in answer]
    rows = {
        "split": lambda: [split_documents(data, "x.yaml") for data in files.values()],
        "parse YAML": lambda: [parse_document(chunk, ORIGIN) for chunk in chunks],
        "decode and check": lambda: [admit(document.value, ORIGIN, FOLDER.cluster) for document in parsed],
    }
    print(f"{len(chunks)} documents, {sum(map(len, files.values())) / 1e6:.1f} MB in {len(files)} files")
    for name, work in rows.items():
        print(f"  {name:<18} {milliseconds(work):8.1f} ms")


def main() -> int:
    """Measure, print, compare with the budgets."""
    files = folder()
    stages(files)
    contents: dict[str, Content] = dict(files)
    whole = milliseconds(lambda: run(update_folder(FOLDER, FolderState(), contents)))
    state = run(update_folder(FOLDER, FolderState(), contents))
    edited: dict[str, Content] = {"0.yaml": "".join(service(n, 11 if n == 0 else 10) for n in range(25)).encode()}
    edit = milliseconds(lambda: run(update_folder(FOLDER, state, edited)), rounds=20)
    (first, *_) = split_documents(files["0.yaml"], "0.yaml")
    one = milliseconds(lambda: judge(first), rounds=20)
    print(f"whole folder         {whole:8.1f} ms (budget {WHOLE_BUDGET:.0f})")
    print(f"one changed document {one:8.2f} ms (budget {ONE_BUDGET:.0f})")
    print(f"its file of 100      {edit:8.2f} ms (with the folder's tables)")
    return 0 if whole <= WHOLE_BUDGET and one <= ONE_BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
