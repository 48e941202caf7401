"""The demonstration: a control plane on the shop's mesh, two real Envoys, traffic, edits, a kill, and the reasons.

The Envoys prove by tokens whose sidecars they are, get certificates from the control plane, and speak mutual TLS.

    python examples/shop/demo.py --envoy PATH [--once]

With `--once` it checks what it shows and exits 0 only if all of it was seen to be true.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from rich.console import Console

from examples.shop.identities import Identities
from examples.shop.processes import (
    NETWORK,
    PATIENCE,
    TRIERARCH,
    ControlPlane,
    Mesh,
    Programs,
    Push,
    Sidecar,
    tails,
    wait_until,
)

STRICT = """
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: catalog, namespace: shop}
spec: {selector: {matchLabels: {app: catalog}}, mtls: {mode: STRICT}}
"""

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The running pieces; `front` is the sidecar of the client. `failures` collects what was not so."""

    mesh: Mesh
    control_plane: ControlPlane
    front: Sidecar
    failures: list[str] = field(default_factory=list)

    def check(self, claim: str, holds: bool, detail: str) -> None:
        """Show a claim and what was seen."""
        console.print(f"  {'[green]ok[/]' if holds else '[red]NOT SO[/]'}  {claim:<46} {detail}")
        if not holds:
            self.failures.append(claim)

    def reviews(self, requests: int = 40) -> Counter[str]:
        """Where that many requests to `reviews` went."""
        return Counter(self.front.get("reviews").text.split()[0] for _ in range(requests))

    def call_plainly(self) -> int | None:
        """The status of a request to catalog's sidecar without any TLS; None if it closes the connection."""
        try:
            return httpx.get(f"http://{NETWORK}.2:8081/", timeout=10).status_code
        except (httpx.RemoteProtocolError, httpx.ReadError):
            return None

    def wait_for_push(self, edited_at: float, program: str) -> Push:
        """The push of an edit that sends all requests to one program.

        Envoy says ACK a moment before its worker threads know.
        """
        push = self.control_plane.wait_for_ack(edited_at, self.front.id)
        wait_until(f"requests go to {program}", lambda: self.reviews(5).keys() == {program})
        return push


def start(stack: ExitStack, envoy: Path, folder: Path) -> Demo:
    """Start the control plane, the programs and both sidecars."""
    mesh, identities = Mesh(folder / "mesh"), Identities(folder / "identities")
    control_plane = ControlPlane(mesh.folder, folder / "trierarch.log", flags=("--allow-kill", *identities.flags))
    stack.enter_context(Programs(folder))
    stack.enter_context(control_plane)
    control_plane.wait_until_ready()
    workloads = (("front", f"{NETWORK}.1", "delta"), ("catalog", f"{NETWORK}.2", "sotw"))
    front, _ = (
        stack.enter_context(
            Sidecar(
                envoy,
                control_plane.secure,
                folder,
                app=app,
                address=address,
                mode=mode,
                credentials=identities.credentials(app),
                TRIERARCH_SDS="ads",
            )
        )
        for app, address, mode in workloads
    )
    wait_until("the sidecars", lambda: front.get("catalog").status_code == 200)
    return Demo(mesh=mesh, control_plane=control_plane, front=front)


def show_traffic(demo: Demo) -> None:
    """Each kind of routing, once."""
    console.print("[bold]1. Traffic by the mesh's configuration[/]")
    split = demo.reviews()
    demo.check("reviews, weights 90:10", split["reviews-v1"] > split["reviews-v2"], f"{dict(split)}")
    tester = demo.front.get("reviews", x_tester="yes").text.strip()
    demo.check("reviews with header x-tester", tester.startswith("reviews-v2"), tester)
    catalog = demo.front.get("catalog", "/old/items/7").text.strip()
    demo.check("catalog, two sidecars, path rewritten", catalog.startswith("catalog saw /items/7"), catalog)
    flaky = [demo.front.get("stock", "/flaky").status_code for _ in range(4)]
    demo.check("stock fails every other time, is retried", flaky == [200] * 4, f"{flaky}")
    rates = demo.front.get("rates.partner.example").text.strip()
    demo.check("rates, a ServiceEntry", rates.startswith("rates"), rates)


def show_mutual_tls(demo: Demo) -> None:
    """Certificates came over ADS; a policy then shuts out whoever has none."""
    console.print("[bold]2. Mutual TLS, and a policy that demands it[/]")
    caller = demo.front.get("catalog").text.strip()
    demo.check("catalog knows its caller by certificate", "spiffe://" in caller, caller.rpartition(" ")[2])
    demo.check("somebody without a sidecar gets in", demo.call_plainly() == 200, f"{demo.call_plainly()}")
    demo.mesh.write("catalog-strict.yaml", STRICT)
    wait_until("plaintext is refused", lambda: demo.call_plainly() is None)
    demo.check("PeerAuthentication STRICT: no longer", demo.call_plainly() is None, "connection closed")
    answer = demo.front.get("catalog").status_code
    demo.check("the sidecar of front still does", answer == 200, f"{answer}")


def show_edit(demo: Demo) -> None:
    """An edit shifts the traffic; how long it took."""
    console.print("[bold]3. An edit of one file: all reviews to v2[/]")
    edited_at = demo.mesh.set_weights(0, 100)
    push = demo.wait_for_push(edited_at, "reviews-v2")
    split = demo.reviews()
    demo.check("traffic has shifted", split == {"reviews-v2": 40}, f"{dict(split)}")
    took = (push["finished"] - edited_at) * 1000
    size = sum(item["size"] for item in push["sent"])
    demo.check("from file change to last ACK", took < PATIENCE * 1000, f"{took:.0f} ms (100 ms debounce), {size} bytes")


def show_kill(demo: Demo) -> None:
    """The debouncer dies while it holds an edit; the edit arrives all the same, and is known to be the cause."""
    console.print("[bold]4. All reviews to v1; the debouncer is killed while it holds that edit[/]")
    changes = len(demo.control_plane.logged("config_changed"))
    edited_at = demo.mesh.set_weights(100, 0)
    wait_until("intake", lambda: len(demo.control_plane.logged("config_changed")) > changes)
    killed = demo.control_plane.kill_actor("debouncer")
    demo.check("POST /debug/actors/debouncer/kill", killed.status_code == 200, killed.text.strip())
    push = demo.wait_for_push(edited_at, "reviews-v1")
    split = demo.reviews()
    demo.check("the edit arrived", split == {"reviews-v1": 40}, f"{dict(split)}")
    events = [cause["event"] for cause in push["causes"]]
    demo.check("it was in the debouncer's hands", events == ["updated", "resynced"], f"causes: {', '.join(events)}")


def show_why(demo: Demo) -> None:
    """Why the front sidecar was pushed, in the product's own words."""
    console.print("[bold]5. trierarch why front-1.shop --last 2[/]")
    why = demo.control_plane.command("why", "front-1.shop", "--last", "2")
    console.print(why, markup=False)
    demo.check("the edited object is named", "VirtualService shop/reviews" in why, "")


def show_all(stack: ExitStack, envoy: Path, folder: Path) -> Demo:
    """Start everything and show it."""
    with console.status("starting the control plane, five programs and two Envoys ..."):
        demo = start(stack, envoy, folder)
    for show in (show_traffic, show_mutual_tls, show_edit, show_kill, show_why):
        show(demo)
    return demo


def stay(demo: Demo) -> None:
    """Stay up until Ctrl-C."""
    console.print(f"\nIt stays up until Ctrl-C. Edit a file in {demo.mesh.folder} and try:")
    for command in (
        f"curl -H 'host: reviews' http://{demo.front.outbound}/",
        f"{TRIERARCH} why front-1.shop --http-addr {demo.control_plane.debug}",
    ):
        console.print(f"  {command}", markup=False)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("bye")


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envoy", type=Path, required=True)
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trierarch-demo-")))
        try:
            demo = show_all(stack, options.envoy, folder)
        except (TimeoutError, ChildProcessError) as error:
            for name, text in tails(folder).items():
                console.print(f"[bold]{name}[/]")
                console.print(text, markup=False)
            raise SystemExit(str(error)) from None
        if options.once:
            raise SystemExit("; ".join(demo.failures) or 0)
        stay(demo)


if __name__ == "__main__":
    main()
