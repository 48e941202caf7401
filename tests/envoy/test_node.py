"""What a Node makes us keep."""

from __future__ import annotations

import pytest
from envoy.config.core.v3 import base_pb2

from protocol.errors import RemoteError
from trierarch.envoy.node import MOST_KEPT, decode_proxy


def node(region="", **metadata) -> bytes:
    """A Node with this metadata."""
    message = base_pb2.Node(id="sidecar~10.1.0.2~web-2.shop~shop.svc.cluster.local")
    message.locality.region = region
    message.metadata.update(metadata)
    return message.SerializeToString()


def test_metadata_that_nobody_reads_is_not_kept():
    """A Pod's annotations alone may be 256 KiB, for as long as the stream lasts."""
    proxy = decode_proxy(node(ANNOTATIONS={"a": "b" * 100_000}, LABELS={"app": "web"}, NOISE=[[]] * 5_000), "c1")
    assert proxy.metadata == {"LABELS": {"app": "web"}}
    assert proxy.labels == (("app", "web"),)


@pytest.mark.parametrize(
    "excessive",
    [
        node(LABELS={f"label-{number}": "x" * 63 for number in range(450)}),
        node(LABELS={"app": "é" * (MOST_KEPT // 4)}),
        node(region="x" * MOST_KEPT),
    ],
    ids=["labels", "letters of many bytes", "region"],
)
def test_what_is_kept_is_bounded(excessive):
    """Twenty thousand streams may each keep as much."""
    with pytest.raises(RemoteError, match="characters"):
        decode_proxy(excessive, "c1")


def test_a_pod_with_very_many_labels_is_served():
    """Two hundred long ones are no attack."""
    labels = {f"team.example.com/label-{number}": "x" * 63 for number in range(200)}
    assert len(decode_proxy(node(LABELS=labels), "c1").labels) == 200
