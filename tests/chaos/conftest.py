"""The fixtures of tests with real processes."""

from tests.e2e.conftest import clients, envoy, pytest_runtest_makereport, shop

__all__ = ["clients", "envoy", "pytest_runtest_makereport", "shop"]
