"""What changes count as (xds-server.md §1.3)."""

from __future__ import annotations

from trierarch.config.objects import ObjectKey
from trierarch.push.reasons import count_reasons, is_endpoints_only, is_forced


def keys(*kinds):
    """Keys of objects of these kinds."""
    return frozenset(ObjectKey("Kubernetes", kind, "shop", f"{number}") for number, kind in enumerate(kinds))


def test_every_change_counts_once():
    """By kind; what has no reason of its own is "config"."""
    changed = keys("Service", "ServiceEntry", "Pod", "EndpointSlice", "VirtualService", "Namespace")
    assert count_reasons(changed) == {"service": 2, "endpoint": 2, "config": 1, "namespace": 1}


def test_the_mesh_s_settings_are_forced():
    """MeshConfig and MeshNetworks concern every proxy, nothing else does by itself."""
    assert is_forced(keys("VirtualService", "MeshNetworks"))
    assert is_forced(keys("MeshConfig"))
    assert not is_forced(keys("VirtualService", "Service"))


def test_only_endpoints():
    """Slices and Endpoints, and at least one."""
    assert is_endpoints_only(keys("EndpointSlice", "Endpoints"))
    assert not is_endpoints_only(keys("EndpointSlice", "Pod"))
    assert not is_endpoints_only(frozenset())
