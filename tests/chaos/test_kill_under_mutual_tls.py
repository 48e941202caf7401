"""Kill whoever keeps identities, or the whole control plane, while each request between Envoys shakes hands anew."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

import pytest

from examples.shop.processes import wait_until
from tests.chaos.watching import kill
from tests.e2e.town import POLICY, Town, load_of, rejections

pytestmark = pytest.mark.chaos

IDENTITIES = ("authority", "certificate_rotor", "token_keys", "identity", "secure_grpc")
OTHERS = ("pipeline", "connections", "push_scheduler", "connection-1")

PATIENCE = 60
"""Seconds for what may have to wait until an Envoy that found nobody tries again: it takes up to 30."""


@pytest.fixture
def short_lives(monkeypatch):
    """Certificates are changed every few seconds."""
    monkeypatch.setenv("DEFAULT_WORKLOAD_CERT_TTL", "8s")


@pytest.fixture
def town(tmp_path, envoy):
    """A town where `catalog` takes nothing but mutual TLS."""
    with ExitStack() as stack:
        town = Town(tmp_path, envoy, stack)
        town.mesh.write("policy.yaml", POLICY % "STRICT")
        yield town


def change_policy(town, mode):
    """Another policy for `catalog`, which is in force when this returns; strict or not, mutual TLS goes on."""
    town.mesh.write("policy.yaml", POLICY % mode)
    status = {"STRICT": None, "PERMISSIVE": 200}[mode]
    wait_until(f"{mode} is in force", lambda: town.call_plainly() == status, patience=PATIENCE)


def wait_for_another_certificate(town, shown):
    """Wait until `catalog` shows another certificate than this one."""
    wait_until("another certificate", lambda: town.served() not in ("", shown), patience=PATIENCE)


@pytest.mark.usefixtures("short_lives")
@pytest.mark.parametrize("name", [*IDENTITIES, *OTHERS])
def test_the_death_of(name, town):
    """No request fails, certificates go on being renewed, and a policy that is edited meanwhile comes into force."""
    front = town.add_both()
    with load_of(front) as load:
        for mode in ("PERMISSIVE", "STRICT"):
            kill(town.plane, name)
            change_policy(town, mode)
            wait_for_another_certificate(town, town.served())
    load.check()
    assert rejections(front) == []


@pytest.mark.parametrize(
    ("by", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)], ids=["kill", "drain"]
)
def test_a_control_plane_that_is_started_again(by, code, town):
    """No request fails: proxies keep certificates and configuration, and get new ones from its successor."""
    front = town.add_both()
    with load_of(front) as load:
        for mode in ("PERMISSIVE", "STRICT"):
            shown = town.served()
            assert town.plane.end(by) == code
            time.sleep(1)
            town.plane.start()
            change_policy(town, mode)
            wait_for_another_certificate(town, shown)
    load.check()
    assert rejections(front) == []
