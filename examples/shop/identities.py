"""Who is who in the shop: tokens of service accounts as Kubernetes would mount them, and the roots of the mesh.

A token proves to the control plane whose sidecar calls; what the sidecar gets for it is a certificate.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from pathlib import Path

AUDIENCE = "istio-ca"
"""Of tokens for a control plane."""

LIFETIME = 3600.0
"""Seconds that a token is good for, unless it is said otherwise."""

_ALGORITHM = "ES256"


class Identities:
    """An issuer of tokens, and the folder where the control plane keeps its root.

    `flags` let `trierarch serve` believe the tokens; `roots` is the file that its clients trust; tokens are good for
    `lifetime` seconds.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        keys, authority = folder / "token-keys.json", folder / "ca"
        folder.mkdir(parents=True, exist_ok=True)
        key = jwt.get_algorithm_by_name(_ALGORITHM).to_jwk(self._key.public_key(), as_dict=True)
        keys.write_text(json.dumps({"keys": [key | {"use": "sig"}]}))
        self.flags = ("--token-keys", str(keys), "--ca-folder", str(authority))
        self.roots = authority / "root-cert.pem"
        self.lifetime = LIFETIME

    def token(self, account: str, namespace: str = "shop", **claims: object) -> str:
        """A token of a service account; `claims` replace what it would say."""
        now = int(time.time())
        said = {
            "sub": f"system:serviceaccount:{namespace}:{account}",
            "aud": [AUDIENCE],
            "iat": now,
            "exp": now + self.lifetime,
            **claims,
        }
        return jwt.encode(said, self._key, _ALGORITHM)

    def credentials(self, account: str) -> tuple[str, ...]:
        """What `trierarch bootstrap` is told for a sidecar that shows such a token, from a file."""
        path = self._folder / f"{account}.token"
        path.touch(mode=0o600)
        path.write_text(self.token(account))
        return ("--token", str(path), "--roots", str(self.roots))
