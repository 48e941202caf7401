"""The fixtures of tests with real processes."""

from tests.e2e.conftest import envoy, pytest_runtest_makereport, shop

__all__ = ["envoy", "pytest_runtest_makereport", "shop"]
