"""Who may ask for another's certificate: the agent of a node, for the pods on its node (platform.md §1.2).

Its account must be one that the settings trust, it must run in the very pod that its token is bound to, and a pod of
the wanted account, whose identity is of the same trust domain, must run on the same node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.spiffe import SpiffeId, parse_spiffe
from trierarch.config.kubernetes import Pod
from trierarch.config.objects import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.config.store import ConfigView
    from trierarch.identity.authenticate import Caller

KIND = "Pod"


def find_objection(
    caller: Caller, wanted: str, *, trusted: tuple[str, ...], view: ConfigView, cluster: str
) -> str | None:
    """Why this caller may not ask for a certificate of `wanted` (a SPIFFE URI); None if it may.

    `trusted`: accounts as NAMESPACE/NAME. `cluster`: the one whose pods are looked at.
    """
    accounts = [each for each in map(parse_spiffe, caller.identities) if each and _account(each) in trusted]
    identity = parse_spiffe(wanted)
    if identity is None:
        return "the wanted identity is no SPIFFE identity of a service account"
    if not accounts:
        return "its account is not trusted to act for others"
    if identity.trust_domain != accounts[0].trust_domain:
        return "the wanted identity is of another trust domain"
    node = _node_of(caller, accounts[0], view, cluster)
    if node is None:
        return "its token is not bound to a pod that runs"
    if not any(_runs_as(pod, identity) for pod in _pods_on(node, identity.namespace, view, cluster)):
        return f"no pod of the wanted account runs on node {node}"
    return None


def _account(identity: SpiffeId) -> str:
    return f"{identity.namespace}/{identity.service_account}"


def _node_of(caller: Caller, account: SpiffeId, view: ConfigView, cluster: str) -> str | None:
    """Where the caller's own pod runs, if there is such a pod."""
    if caller.pod is None:
        return None
    found = view.get(ObjectKey(cluster, KIND, account.namespace, caller.pod.name))
    pod = found.spec if found is not None else None
    if not isinstance(pod, Pod) or pod.uid != caller.pod.uid or not _runs_as(pod, account):
        return None
    return pod.node_name or None


def _runs_as(pod: Pod, identity: SpiffeId) -> bool:
    return pod.service_account_name == identity.service_account and pod.phase not in ("Failed", "Succeeded")


def _pods_on(node: str, namespace: str, view: ConfigView, cluster: str) -> Iterator[Pod]:
    for key, found in view.table(KIND).items():
        pod = found.spec
        if (key.cluster, key.namespace) == (cluster, namespace) and isinstance(pod, Pod) and pod.node_name == node:
            yield pod
