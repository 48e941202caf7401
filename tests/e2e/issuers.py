"""Issuers of tokens: their keys, a server that publishes them, and tokens that are right or wrong in one way each."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

if TYPE_CHECKING:
    from collections.abc import Mapping


class SigningKey:
    """A key of an issuer."""

    def __init__(self, name: str, algorithm: str = "RS256") -> None:
        self.name, self.algorithm = name, algorithm
        elliptic = algorithm.startswith("ES")
        self._key = ec.generate_private_key(ec.SECP256R1()) if elliptic else rsa.generate_private_key(65537, 2048)
        form = ECAlgorithm if elliptic else RSAAlgorithm
        self._public = json.loads(form.to_jwk(self._key.public_key()))

    @property
    def published(self) -> Mapping[str, str]:
        """The public half as it stands in a key set."""
        return {**self._public, "kid": self.name, "use": "sig", "alg": self.algorithm}

    def sign(self, issuer: str, lifetime: float = 600.0, **claims: object) -> str:
        """A token of this issuer that is valid for so many seconds from now."""
        now = time.time()
        stated = {"iss": issuer, "sub": "anna", "aud": "shop", "iat": now, "exp": now + lifetime, **claims}
        return jwt.encode(stated, self._key, algorithm=self.algorithm, headers={"kid": self.name})


def key_set(*keys: SigningKey) -> str:
    """A key set of these keys."""
    return json.dumps({"keys": [key.published for key in keys]})


class Publisher:
    """Serves key sets over HTTP at an address; `pages` may change. Leaving the `with` block ends it.

    `delay`: seconds before it answers.
    """

    def __init__(self, address: str) -> None:
        self.pages: dict[str, str] = {}
        self.delay = 0.0
        self._server = ThreadingHTTPServer((address, 0), _handler(self))
        self.url = f"http://{address}:{self._server.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(publisher: Publisher) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(publisher.delay)
            body = publisher.pages.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.end_headers()
            self.wfile.write((body or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler
