"""The shop as running processes: its programs, the control plane and sidecars. The demonstration and tests start them.

Everything has an address of its own in a network (`127.10.0` by default), so several shops run side by side and no port
has to be looked for. Nothing is judged here: who starts the shop looks at it and says what is wrong.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
TRIERARCH = Path(sys.executable).parent / "trierarch"
NETWORK = "127.10.0"
"""The first three numbers of all addresses in `mesh/`."""

PATIENCE = 30.0
"""Seconds after which something that should happen soon has not."""

WIDTH = 300
"""Characters of a line that are shown of a log."""

Push = dict[str, Any]
"""An item of /debug/pushes."""

LogLine = dict[str, Any]


def wait_until(what: str, holds: Callable[[], object], patience: float = PATIENCE, pause: float = 0.02) -> float:
    """Wait until something holds, looking after each pause; returns the seconds that it took. No answer means no.

    Raises `TimeoutError` that names `what`.
    """
    started = time.monotonic()
    while time.monotonic() - started < patience:
        try:
            if holds():
                return time.monotonic() - started
        except httpx.TransportError:
            pass
        time.sleep(pause)
    raise TimeoutError(f"gave up waiting after {patience:g} s: {what}")


def tails(folder: Path, lines: int = 15) -> dict[str, str]:
    """The last lines of each log in a folder, by its name, cut: for whoever has to find out what went wrong."""
    logs = {log.name: log.read_text(errors="replace").splitlines()[-lines:] for log in sorted(folder.glob("*.log"))}
    return {name: "\n".join(line[:WIDTH] for line in last) for name, last in logs.items() if last}


class Process:
    """A child process whose output is appended to a file. Leaving the `with` block ends it."""

    def __init__(self, *command: str | Path, log: Path) -> None:
        self.log = log
        self._command = [str(word) for word in command]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, for the first time or again."""
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
            )

    def code(self) -> int | None:
        """The exit code of one that has ended by itself; None while it runs."""
        return self._child.poll() if self._child else None

    def wait(self, patience: float = PATIENCE) -> int:
        """Wait until it ends by itself; returns its exit code. One that does not end in time is killed."""
        if self._child is None:
            return 0
        with self._child as child:
            try:
                return child.wait(patience)
            except subprocess.TimeoutExpired:
                child.kill()
                return child.wait()
            finally:
                self._child = None

    def end(self, by: signal.Signals = signal.SIGTERM, patience: float = 15.0) -> int:
        """Send it a signal and wait for its end as above."""
        if self._child is not None:
            self._child.send_signal(by)
        return self.wait(patience)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Programs(Process):
    """The shop's programs (`upstreams.py`)."""

    def __init__(self, folder: Path, network: str = NETWORK) -> None:
        super().__init__(sys.executable, HERE / "upstreams.py", network, log=folder / "upstreams.log")


class ControlPlane(Process):
    """`trierarch serve` on a folder of configuration, at the network's address 100.

    `xds` and `secure` are where it serves xDS, `debug` is its debug address.
    """

    def __init__(self, config: Path, log: Path, network: str = NETWORK, flags: tuple[str, ...] = ()) -> None:
        self.xds, self.secure, self.debug = (f"{network}.100:{port}" for port in (15010, 15012, 8080))
        addresses = ["--grpc-addr", self.xds, "--secure-grpc-addr", self.secure, "--http-addr", self.debug]
        addresses += ["--monitoring-addr", ""]
        super().__init__(TRIERARCH, "serve", "--config", config, *addresses, *flags, log=log)

    def get(self, path: str, **parameters: str) -> httpx.Response:
        """A debug page."""
        return httpx.get(f"http://{self.debug}{path}", params=parameters, timeout=10)

    def is_ready(self) -> bool:
        """Whether proxies can be served."""
        return self.get("/ready").status_code == 200

    def wait_until_ready(self) -> None:
        """Wait until proxies can be served. Raises `ChildProcessError` if it has ended instead."""
        wait_until("the control plane is ready", lambda: self.code() is not None or self.is_ready())
        if self.code() is not None:
            raise ChildProcessError(f"the control plane ended with code {self.code()}")

    def pushes(self, proxy: str = "") -> list[Push]:
        """What is remembered of the pushes to the proxies whose id contains `proxy`, newest last."""
        pushes: list[Push] = self.get("/debug/pushes", proxyID=proxy).json()
        return pushes

    def wait_for_ack(self, moment: float, proxy: str) -> Push:
        """The first push to a proxy that a change caused and that was acknowledged after a moment (wall clock)."""

        def acked() -> list[Push]:
            caused = [push for push in self.pushes(proxy) if push["causes"]]
            return [push for push in caused if push["finished"] > moment and push["outcome"] == "acked"]

        wait_until(f"an ACK of {proxy}", acked)
        return acked()[0]

    def kill_actor(self, name: str) -> httpx.Response:
        """Kill an actor; `trierarch kill` would take longer to start."""
        return httpx.post(f"http://{self.debug}/debug/actors/{name}/kill", timeout=10)

    def command(self, *words: str) -> str:
        """What a command of `trierarch` says about this control plane."""
        command = [str(TRIERARCH), *words, "--http-addr", self.debug]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.stdout.rstrip() or done.stderr.rstrip()

    def logged(self, event: str) -> list[LogLine]:
        """The lines of its log that tell of this event."""
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if f'"event": "{event}"' in line)
        return [line for line in lines if line["event"] == event]


class Sidecar(Process):
    """A stock Envoy as the sidecar of one workload, with the bootstrap that our command line prints.

    The program that it belongs to would send its requests to `outbound`; `admin` is Envoy's own page. `credentials` are
    what `trierarch bootstrap` is told of them: without any it speaks plaintext. `home` is its working directory.
    """

    def __init__(
        self,
        envoy: Path,
        xds: str,
        folder: Path,
        *,
        app: str,
        address: str,
        mode: str,
        credentials: tuple[str, ...] = (),
        home: Path | None = None,
        **metadata: str,
    ) -> None:
        self.id = f"{app}-1.shop"
        self.outbound, self.admin = f"{address}:8080", f"{address}:15000"
        bootstrap = folder / f"{app}.bootstrap.yaml"
        node = f"sidecar~{address}~{self.id}~shop.svc.cluster.local"
        bootstrap.write_bytes(print_bootstrap(node, xds, mode, self.admin, credentials, **metadata))
        options = [
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "-l",
            "warning",
            "--component-log-level",
            "misc:error",
        ]
        place = ("env", "-C", home) if home else ()
        super().__init__(*place, envoy, "-c", bootstrap, *options, log=folder / f"{app}.log")
        self._client = httpx.Client(timeout=10)

    def get(self, host: str, path: str = "/", **headers: str) -> httpx.Response:
        """One request as the program would send it; a header's underscores stand for hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.get(f"http://{self.outbound}{path}", headers={"host": host, **named})

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self.end()


def print_bootstrap(
    node: str, xds: str, mode: str, admin: str, credentials: tuple[str, ...] = (), **metadata: str
) -> bytes:
    """The output of `trierarch bootstrap` for a proxy whose program calls it by address, without interception."""
    command = [str(TRIERARCH), "bootstrap", "--id", node, "--xds", xds, "--mode", mode, "--admin", admin, *credentials]
    metadata = {"INTERCEPTION_MODE": "NONE", "CLUSTER_ID": "Kubernetes", **metadata}
    stated = [word for name, value in metadata.items() for word in ("--metadata", f"{name}={value}")]
    return subprocess.run([*command, *stated], check=True, capture_output=True).stdout


class Mesh:
    """A copy of the shop's configuration, changed as an editor does it: written beside, then renamed."""

    def __init__(self, folder: Path, network: str = NETWORK) -> None:
        self.folder = folder
        folder.mkdir()
        for file in sorted((HERE / "mesh").iterdir()):
            self.write(file.name, file.read_text().replace(f"{NETWORK}.", f"{network}."))

    def read(self, name: str) -> str:
        """The text of a file."""
        return (self.folder / name).read_text()

    def write(self, name: str, text: str) -> float:
        """Put a file in place; returns the wall clock time before."""
        draft = self.folder / f".{name}.draft"
        draft.write_text(text)
        before = time.time()
        draft.rename(self.folder / name)
        return before

    def set_weights(self, first: int, second: int) -> float:
        """Send so many of a hundred requests for `reviews` to v1 and v2; returns the wall clock time before."""
        text = (HERE / "mesh" / "reviews-routing.yaml").read_text()
        text = text.replace("weight: 90}", f"weight: {first}}}").replace("weight: 10}", f"weight: {second}}}")
        return self.write("reviews-routing.yaml", text)
