"""Which of a caller's identities a proxy may have."""

from __future__ import annotations

import pytest

from protocol.errors import RemoteError
from protocol.spiffe import SpiffeId
from protocol.statuses import PERMISSION_DENIED
from trierarch.identity.authorize import authorize

WEB, VAULT = "spiffe://cluster.local/ns/shop/sa/web", "spiffe://other/ns/bank/sa/vault"


@pytest.mark.parametrize(
    ("namespace", "account", "found"),
    [
        ("shop", "web", SpiffeId("cluster.local", "shop", "web")),
        ("bank", "", SpiffeId("other", "bank", "vault")),
        ("", "vault", SpiffeId("other", "bank", "vault")),
        ("", "", SpiffeId("cluster.local", "shop", "web")),
    ],
)
def test_the_first_that_fits(namespace, account, found):
    """Whatever its trust domain; what is not claimed fits everything."""
    assert authorize(("https://shop/web", WEB, VAULT), namespace=namespace, service_account=account) == found


@pytest.mark.parametrize(("namespace", "account"), [("shop", "vault"), ("bank", "web"), ("far", ""), ("", "far")])
def test_none_that_fits(namespace, account):
    """Namespace and account must be those of one identity, not of two."""
    with pytest.raises(RemoteError) as raised:
        authorize((WEB, VAULT), namespace=namespace, service_account=account)
    assert raised.value.code == PERMISSION_DENIED
    assert WEB in raised.value.message
    assert repr(namespace) in raised.value.message


def test_what_is_no_spiffe_id_proves_nothing():
    """Nor does nothing at all."""
    for identities in ((), ("spiffe://cluster.local/shop/web", "shop/web")):
        with pytest.raises(RemoteError):
            authorize(identities, namespace="", service_account="")
