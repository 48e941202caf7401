"""Fixtures for tests with real processes, and the ends of their logs beside what failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.shop.processes import tails
from tests.chaos.watching import unnoticed
from tests.e2e.shops import open_shop


@pytest.fixture(scope="session")
def envoy() -> Path:
    """The Envoy binary that TRIERARCH_ENVOY names; without one the test is skipped."""
    named = os.environ.get("TRIERARCH_ENVOY", "")
    if not named:
        pytest.skip("TRIERARCH_ENVOY names no Envoy binary (`make envoy` and `make chaos` set it)")
    if not Path(named).is_file():
        pytest.skip(f"TRIERARCH_ENVOY: there is no {named}")
    return Path(named)


@pytest.fixture
def shop(tmp_path):
    """A shop of its own for one test; actors may be killed."""
    with open_shop(tmp_path, "--allow-kill") as shop:
        yield shop


@pytest.fixture
def clients(shop, envoy):
    """Both clients' sidecars under load, of which nothing may be noticed."""
    sidecars = shop.add_clients(envoy)
    with unnoticed(*sidecars):
        yield sidecars


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Show the ends of all logs in the folder of a test that failed, or in that of the town which it shares."""
    report = yield
    fixtures = getattr(item, "funcargs", {})
    folder = getattr(fixtures.get("town"), "folder", None) or fixtures.get("tmp_path")
    if report.failed and folder is not None:
        report.sections += [(f"end of {name}", text) for name, text in tails(folder).items()]
    return report
