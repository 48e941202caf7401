"""Stock Envoys beside workloads whose certificates are files, so that they know each other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from examples.shop.processes import Process
from tests.envoy.certificates import CERTIFICATE, KEY, ROOTS
from trierarch.envoy.bootstrap import build_bootstrap
from trierarch.envoy.secret_references import SECRETS_FOLDER, WORKLOAD_CERTIFICATE, WORKLOAD_ROOTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.envoy.certificates import Authority

SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"


class CertifiedSidecar(Process):
    """The sidecar of `app` in a namespace. `secrets` is where it says that it has certificates from; its log and all
    its files are in `folder`. Connections through changed filter chains end after `drain` seconds; HTTP/1.1 clients are
    asked to end theirs before, but not within the first second.
    """

    def __init__(
        self,
        envoy: Path,
        xds: str,
        folder: Path,
        authority: Authority,
        *,
        app: str,
        address: str,
        namespace: str = "shop",
        secrets: str = "files",
        drain: int = 1,
    ) -> None:
        self.id = f"{app}-1.{namespace}"
        self.admin = f"{address}:15000"
        home = folder / app
        authority.issue(f"spiffe://cluster.local/ns/{namespace}/sa/{app}", home)
        _write_secrets(home)
        bootstrap = build_bootstrap(
            node_id=f"sidecar~{address}~{self.id}~{namespace}.svc.cluster.local",
            xds=xds,
            metadata={"INTERCEPTION_MODE": "NONE", "CLUSTER_ID": "Kubernetes", "TRIERARCH_SDS": secrets},
            admin=self.admin,
        )
        (home / "bootstrap.json").write_text(json.dumps(bootstrap))
        options = ["-c", "bootstrap.json", "--disable-hot-restart", "--concurrency", "1", "--drain-time-s", str(drain)]
        super().__init__("env", "-C", home, envoy, *options, "-l", "warning", log=folder / f"{app}.log")


def _write_secrets(home: Path) -> None:
    folder = home / SECRETS_FOLDER
    folder.mkdir(parents=True)
    pair = {"certificate_chain": {"filename": str(home / CERTIFICATE)}, "private_key": {"filename": str(home / KEY)}}
    secrets = {
        WORKLOAD_CERTIFICATE: {"tls_certificate": pair},
        WORKLOAD_ROOTS: {"validation_context": {"trusted_ca": {"filename": str(home / ROOTS)}}},
    }
    for name, secret in secrets.items():
        document = {"resources": [{"@type": SECRET, "name": name, **secret}]}
        (folder / f"{name}.yaml").write_text(json.dumps(document))
