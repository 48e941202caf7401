"""Stock Envoys that prove by tokens who they are and get their certificates from the control plane, while all of them
change under traffic: policies, leaves, roots.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import count

import pytest

from examples.shop.processes import TRIERARCH, Process, wait_until
from tests.e2e.town import CATALOG, FRONT, IDENTITY, POLICY, Town, load_of, rejections
from tests.identity.authorities import ec_key, own_root, plain_bundle
from trierarch.envoy.secret_references import SECRETS_FOLDER

pytestmark = pytest.mark.envoy


@pytest.fixture
def town(tmp_path, envoy):
    """A town without sidecars."""
    with ExitStack() as stack:
        yield Town(tmp_path, envoy, stack)


def test_from_permissive_to_strict_under_traffic(town):
    """No request of the client's sidecar fails, and a plaintext client gets in before and not after."""
    front = town.add_both()
    assert town.call_plainly() == 200
    with load_of(front) as load:
        for mode, status in (("STRICT", None), ("PERMISSIVE", 200), ("STRICT", None)):
            town.mesh.write("policy.yaml", POLICY % mode)
            wait_until(f"{mode}: plaintext gets {status}", lambda wanted=status: town.call_plainly() == wanted)
            before = load.answers
            wait_until("some more requests", lambda count=before: load.answers > count + 25)
    assert load.failures == []
    assert rejections(front) == []
    assert ("default", "issued") in town.pushed_secrets("front-1.shop")


def test_leaves_and_roots_change_under_traffic(tmp_path, envoy, monkeypatch):
    """Certificates of seconds, a root of a quarter of a minute, and an authority that is killed: no request fails."""
    monkeypatch.setenv("DEFAULT_WORKLOAD_CERT_TTL", "8s")
    monkeypatch.setenv("CITADEL_SELF_SIGNED_CA_CERT_TTL", "30s")
    monkeypatch.setenv("CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL", "1s")
    monkeypatch.setenv("CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE", "60")
    with ExitStack() as stack:
        town = Town(tmp_path, envoy, stack)
        town.mesh.write("policy.yaml", POLICY % "STRICT")
        front = town.add_both()
        with load_of(front) as load:
            seen = {town.served()}
            for _ in range(2):
                wait_until("another certificate", lambda: town.served() not in seen)
                seen.add(town.served())
            wait_until("another root", lambda: len(town.plane.logged("authority_adopted")) >= 3, patience=60)
            assert town.plane.kill_actor("authority").status_code == 200
            assert town.plane.kill_actor("certificate_rotor").status_code == 200
            seen.add(town.served())
            wait_until("another certificate", lambda: town.served() not in seen)
        assert load.failures == []
        assert rejections(front) == []
        causes = town.pushed_secrets("catalog-1.shop")
        assert {("default", "renewed"), ("ROOTCA", "updated")} <= set(causes)


class Plugged:
    """A plugged-in authority, whose folder is swapped as Kubernetes does it."""

    def __init__(self, folder) -> None:
        self.path, self._folder, self._number = folder / "current", folder, count(1)
        self.one, self.two = (own_root(ec_key(name), now=time.time()) for name in ("one", "two"))
        folder.mkdir()

    def put(self, signer, *roots) -> None:
        """Let an intermediate of this root sign, and these roots be trusted."""
        files = plain_bundle(f"under {signer.certificate.serial_number}", signer, now=time.time())
        fresh = self._folder / str(next(self._number))
        fresh.mkdir()
        for name, content in {**files, "root-cert.pem": b"".join(each.roots_pem for each in roots)}.items():
            (fresh / name).write_bytes(content)
        draft = self._folder / "draft"
        draft.symlink_to(fresh.name)
        draft.rename(self.path)


def test_another_root_with_another_key_under_traffic(tmp_path, envoy, monkeypatch):
    """First both roots are trusted, then the other one signs, then the first goes: no request fails at any step."""
    plugged = Plugged(tmp_path / "cacerts")
    plugged.put(plugged.one, plugged.one)
    monkeypatch.setenv("ROOT_CA_DIR", str(plugged.path))
    monkeypatch.setenv("ISTIO_MULTIROOT_MESH", "true")
    with ExitStack() as stack:
        town = Town(tmp_path, envoy, stack)
        town.identities.roots = plugged.path / "root-cert.pem"
        front = town.add_both()
        steps = (
            (plugged.one, plugged.one, plugged.two),
            (plugged.two, plugged.one, plugged.two),
            (plugged.two, plugged.two),
        )
        with load_of(front) as load:
            for number, (signer, *roots) in enumerate(steps, start=1):
                plugged.put(signer, *roots)
                for proxy in ("front-1.shop", "catalog-1.shop"):
                    wait_until(
                        f"{proxy} after step {number}",
                        lambda each=proxy, count=number: (
                            town.pushed_secrets(each).count(("default", "renewed")) == count
                        ),
                    )
        assert load.failures == []
        assert rejections(front) == []


def test_certificates_in_files(town):
    """Envoys that read what `trierarch identity` keeps: it opens the control plane to them and is renewed in place."""
    homes = {}
    for app in ("front", "catalog"):
        homes[app] = town.folder / app
        folder = homes[app] / SECRETS_FOLDER
        words = (*town.identities.credentials(app), "--authority", town.plane.secure, "--lifetime", "8s")
        keeper = Process(TRIERARCH, "identity", "--folder", folder, *words, log=town.folder / f"{app}.identity.log")
        town.run(keeper)
        wait_until("the files", (folder / "default.yaml").exists)
    sidecars = [
        town.add(app, number, mode, source="files", credentials=("--identity", SECRETS_FOLDER), home=homes[app])
        for app, number, mode in (("catalog", CATALOG, "sotw"), ("front", FRONT, "delta"))
    ]
    front = sidecars[1]
    town.mesh.write("policy.yaml", POLICY % "STRICT")
    wait_until("mutual TLS", lambda: IDENTITY in front.get("catalog").text)
    with load_of(front) as load:
        seen = {town.served()}
        for _ in range(2):
            wait_until("another certificate", lambda: town.served() not in seen)
            seen.add(town.served())
    assert load.failures == []
    assert rejections(*sidecars) == []


def test_a_token_is_read_anew_for_each_stream(town):
    """The one that an Envoy began with has expired; when its stream ends it comes back with what is in the file now."""
    town.identities.lifetime = 5.0
    front = town.add_both()
    time.sleep(town.identities.lifetime)
    town.identities.lifetime = 3600.0
    for app in ("front", "catalog"):
        town.identities.credentials(app)
    with load_of(front) as load:
        assert town.plane.kill_actor("connections").status_code == 200
        wait_until("both are back", lambda: len(town.plane.logged("stream_opened")) == 4)
        wait_until(
            "their certificates", lambda: town.pushed_secrets("catalog-1.shop").count(("default", "issued")) == 2
        )
    assert load.failures == []


def test_an_envoy_that_claims_another_namespace(town):
    """It is told nothing, however often it tries."""
    town.add("front", FRONT, "delta", NAMESPACE="bank")
    wait_until("two attempts", lambda: len(town.plane.logged("stream_refused")) >= 2)
    assert {line["code"] for line in town.plane.logged("stream_refused")} == {7}
    assert town.plane.logged("stream_opened") == []
