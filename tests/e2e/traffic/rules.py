"""The rules that most cases are about, as YAML.

In the objects of cases `NET.` stands for the network that all addresses are in, `PARTNER` for the partner's port,
`FILES` for the folder with a folder of certificates for each name, and `V1` for a route to the first version of `web`,
and so on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = """
kind: DestinationRule
metadata: {name: web}
spec:
  host: web
  subsets:
  - {name: v1, labels: {version: v1}}
  - {name: v2, labels: {version: v2}}
  - {name: v3, labels: {version: v3}}
"""
"""The versions of `web` as subsets."""


def together(*texts: str) -> str:
    """The objects of several texts."""
    return "\n---\n".join(texts)


def web(*routes: str) -> str:
    """A VirtualService of `web` with these HTTP routes, and its subsets."""
    items = "".join(f"\n  - {{{route}}}" for route in routes)
    return together(f"kind: VirtualService\nmetadata: {{name: web}}\nspec:\n  hosts: [web]\n  http:{items}", VERSIONS)


def policy(host: str, traffic_policy: str) -> str:
    """A DestinationRule that says just this."""
    return f"""
kind: DestinationRule
metadata: {{name: {host}}}
spec:
  host: {host}
  trafficPolicy: {{{traffic_policy}}}
"""


def entry(*lines: str) -> str:
    """A ServiceEntry for `partner.example` at the HTTP port, with these further fields."""
    more = "".join(f"\n  {line}" for line in lines)
    return f"""
kind: ServiceEntry
metadata: {{name: partner}}
spec:
  hosts: [partner.example]
  location: MESH_EXTERNAL
  ports: [{{number: 8080, name: http, protocol: HTTP}}]{more}
"""


def expand(text: str, network: str, partner: int, files: Path) -> str:
    """The same with everything written out."""
    text = text.replace("NET.", f"{network}.").replace("PARTNER", str(partner)).replace("FILES", str(files))
    return re.sub(r"\bV([123])\b", r"route: [{destination: {host: web.shop.svc.cluster.local, subset: v\1}}]", text)
