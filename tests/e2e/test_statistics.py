"""The statistics of a stock Envoy, as those who scrape it see them: by service, port and subset."""

import httpx
import pytest

from examples.shop.processes import wait_until
from tests.e2e.shops import FRONT

pytestmark = pytest.mark.envoy


def test_requests_are_counted_by_service(shop, envoy):
    """With the tags that the bootstrap defines; host names are whole."""
    sidecar = shop.add_sidecar(envoy, "front", FRONT, "delta")
    wait_until("it has its configuration", lambda: sidecar.get("stock").status_code == 200)
    text = httpx.get(f"http://{sidecar.admin}/stats/prometheus").text
    (line,) = [
        each
        for each in text.splitlines()
        if each.startswith("envoy_cluster_upstream_rq_total{") and 'service="stock.shop.svc.cluster.local"' in each
    ]
    assert 'port="8080"' in line
    assert 'direction="outbound"' in line
    assert int(line.split()[-1]) >= 1
