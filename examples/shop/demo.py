"""The demonstration: a control plane on the shop's mesh, two real Envoys, traffic, an edit, a kill, and the reasons.

    python examples/shop/demo.py --envoy PATH [--once]

With `--once` it checks what it shows and exits 0 only if all of it was seen to be true.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
FRONT = "127.10.0.1:8080"
PATIENCE = 30.0
console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The running pieces. `mesh` is a copy of the shop's folder; `failures` collects what was not so."""

    mesh: Path
    debug: str
    grpc: str
    client: httpx.Client
    failures: list[str] = field(default_factory=list)

    def check(self, claim: str, holds: bool, detail: str) -> None:
        """Show a claim and what was seen."""
        console.print(f"  {'[green]ok[/]' if holds else '[red]NOT SO[/]'}  {claim:<46} {detail}")
        if not holds:
            self.failures.append(claim)

    def get(self, host: str, path: str = "/", **headers: str) -> httpx.Response:
        """One request to the client sidecar, as the front program would send it."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.get(f"http://{FRONT}{path}", headers={"host": host, **named})

    def reviews(self, requests: int = 40) -> Counter[str]:
        """Where that many requests to `reviews` went."""
        return Counter(self.get("reviews").text.split()[0] for _ in range(requests))

    def pushes(self) -> list[dict[str, Any]]:
        """The finished pushes to the front sidecar, newest last."""
        page = self.client.get(f"http://{self.debug}/debug/pushes", params={"proxyID": "front-1.shop"})
        pushes: list[dict[str, Any]] = page.json()
        return pushes


def free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(what: str, holds: Callable[[], bool]) -> float:
    """Wait until something holds; returns the seconds that it took."""
    started = time.monotonic()
    while time.monotonic() - started < PATIENCE:
        try:
            if holds():
                return time.monotonic() - started
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise SystemExit(f"gave up waiting: {what}")


@contextmanager
def running(*command: str | Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A child process whose output goes to a file; it ends with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def start(stack: ExitStack, envoy: Path, folder: Path) -> Demo:
    """Start the control plane, the programs and both sidecars."""
    mesh = folder / "mesh"
    shutil.copytree(HERE / "mesh", mesh)
    demo = Demo(
        mesh=mesh,
        debug=f"127.0.0.1:{free_port()}",
        grpc=f"127.0.0.1:{free_port()}",
        client=stack.enter_context(httpx.Client(timeout=10)),
    )
    stack.enter_context(running(sys.executable, HERE / "upstreams.py", log=folder / "upstreams.log"))
    serve = [BIN / "trierarch", "serve", "--config", mesh, "--grpc-addr", demo.grpc, "--http-addr", demo.debug]
    stack.enter_context(running(*serve, "--monitoring-addr", "", "--allow-kill", log=folder / "trierarch.log"))
    wait_until("the control plane", lambda: demo.client.get(f"http://{demo.debug}/ready").status_code == 200)
    for app, address, mode in (("front", "127.10.0.1", "delta"), ("catalog", "127.10.0.2", "sotw")):
        stack.enter_context(running_envoy(envoy, folder, demo, app=app, address=address, mode=mode))
    wait_until("the sidecars", lambda: demo.get("catalog").status_code == 200)
    return demo


@contextmanager
def running_envoy(
    envoy: Path, folder: Path, demo: Demo, *, app: str, address: str, mode: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A stock Envoy as the sidecar of one workload, with the bootstrap that our command line prints."""
    bootstrap = folder / f"{app}.yaml"
    node = f"sidecar~{address}~{app}-1.shop~shop.svc.cluster.local"
    command = [BIN / "trierarch", "bootstrap", "--id", node, "--xds", demo.grpc, "--mode", mode]
    metadata = ["--metadata", "INTERCEPTION_MODE=NONE", "--metadata", "CLUSTER_ID=Kubernetes"]
    bootstrap.write_bytes(subprocess.run([*command, *metadata], check=True, capture_output=True).stdout)
    identity = str(sum(address.encode()) + os.getpid())
    with running(
        envoy, "-c", bootstrap, "--base-id", identity, "--concurrency", "1", "-l", "warning", log=folder / f"{app}.log"
    ) as process:
        yield process


def show_traffic(demo: Demo) -> None:
    """Each kind of routing, once."""
    console.print("[bold]1. Traffic by the mesh's configuration[/]")
    split = demo.reviews()
    demo.check("reviews, weights 90:10", split["reviews-v1"] > split["reviews-v2"], f"{dict(split)}")
    tester = demo.get("reviews", x_tester="yes").text.strip()
    demo.check("reviews with header x-tester", tester.startswith("reviews-v2"), tester)
    catalog = demo.get("catalog", "/old/items/7").text.strip()
    demo.check("catalog, two sidecars, path rewritten", catalog == "catalog saw /items/7", catalog)
    flaky = [demo.get("stock", "/flaky").status_code for _ in range(4)]
    demo.check("stock fails every other time, is retried", flaky == [200] * 4, f"{flaky}")
    rates = demo.get("rates.partner.example").text.strip()
    demo.check("rates, a ServiceEntry", rates.startswith("rates"), rates)


def set_weights(demo: Demo, first: int, second: int) -> float:
    """Edit the VirtualService as an editor does: write beside, then rename. Returns the wall clock time."""
    path = demo.mesh / "reviews-routing.yaml"
    text = (HERE / "mesh" / "reviews-routing.yaml").read_text()
    text = text.replace("weight: 90", f"weight: {first}").replace("weight: 10}", f"weight: {second}}}")
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    edited_at = time.time()
    draft.rename(path)
    return edited_at


def acked_since(demo: Demo, moment: float) -> dict[str, Any] | None:
    """The first push that was finished after that moment and acknowledged, or None."""
    return next((push for push in demo.pushes() if push["finished"] > moment and push["outcome"] == "acked"), None)


def show_edit(demo: Demo) -> None:
    """An edit shifts the traffic; how long it took."""
    console.print("[bold]2. An edit of one file: all reviews to v2[/]")
    edited_at = set_weights(demo, 0, 100)
    wait_until("the push", lambda: acked_since(demo, edited_at) is not None)
    push = acked_since(demo, edited_at) or {}
    split = demo.reviews()
    demo.check("traffic has shifted", split == {"reviews-v2": 40}, f"{dict(split)}")
    took = (push["finished"] - edited_at) * 1000
    size = sum(item["size"] for item in push["sent"])
    demo.check("from file change to last ACK", took < PATIENCE * 1000, f"{took:.0f} ms (100 ms debounce), {size} bytes")


def show_kill(demo: Demo) -> None:
    """The debouncer dies while it holds an edit; the edit arrives all the same, and is known to be the cause."""
    console.print("[bold]3. All reviews to v1; the debouncer is killed while it holds that edit[/]")
    edited_at = set_weights(demo, 100, 0)
    time.sleep(0.05)  # half of the time for which the debouncer holds it; `trierarch kill` would take longer to start
    killed = demo.client.post(f"http://{demo.debug}/debug/actors/debouncer/kill")
    demo.check("POST /debug/actors/debouncer/kill", killed.status_code == 200, killed.text.strip())
    wait_until("the push after the kill", lambda: acked_since(demo, edited_at) is not None)
    split = demo.reviews()
    demo.check("the edit arrived", split == {"reviews-v1": 40}, f"{dict(split)}")
    events = [cause["event"] for cause in (acked_since(demo, edited_at) or {})["causes"]]
    demo.check("it was in the debouncer's hands", events == ["updated", "resynced"], f"causes: {', '.join(events)}")


def show_why(demo: Demo) -> None:
    """Why the front sidecar was pushed, in the product's own words."""
    console.print("[bold]4. trierarch why front-1.shop --last 2[/]")
    command = [BIN / "trierarch", "why", "front-1.shop", "--last", "2", "--http-addr", demo.debug]
    why = subprocess.run(command, check=False, capture_output=True, text=True)
    console.print(why.stdout.rstrip() or why.stderr.rstrip(), markup=False)
    demo.check("the edited object is named", "VirtualService shop/reviews" in why.stdout, "")


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envoy", type=Path, required=True)
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trierarch-demo-")))
        with console.status("starting the control plane, five programs and two Envoys ..."):
            demo = start(stack, options.envoy, folder)
        for show in (show_traffic, show_edit, show_kill, show_why):
            show(demo)
        if options.once:
            raise SystemExit("; ".join(demo.failures) or 0)
        console.print(f"\nIt stays up until Ctrl-C. Edit a file in {demo.mesh} and try:")
        console.print(f"  curl -H 'host: reviews' http://{FRONT}/      curl http://{demo.debug}/debug/pushes")
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            console.print("bye")


if __name__ == "__main__":
    main()
