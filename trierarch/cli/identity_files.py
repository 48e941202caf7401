"""The files of an identity: key, chain and roots, in PEM and as Envoy's secrets, all replaced at one moment.

As Kubernetes mounts a Secret: the files lie in a folder of their own, each name is a link through `..data`, and that
link is moved. Whoever reads two of them never sees a key beside the certificate of another. Everything is blocking.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trierarch.envoy.workload_secrets import build_secret_files

if TYPE_CHECKING:
    from collections.abc import Mapping

CHAIN, KEY, ROOTS = "cert-chain.pem", "key.pem", "root-cert.pem"
"""As Istio's agent calls them."""

_CURRENT = "..data"


def write_identity(folder: Path, *, key: bytes, chain: bytes, roots: bytes) -> None:
    """Replace all files of an identity, from PEM. Nobody but the owner can read them. Raises OSError."""
    pem = {CHAIN: chain, KEY: key, ROOTS: roots}
    _replace(folder, {**pem, **build_secret_files(key=key, chain=chain, roots=roots)})


def _replace(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=folder))  # with mode 0700
    for name, content in files.items():
        path = fresh / name
        path.touch(mode=0o600)
        path.write_bytes(content)
    _link(folder / _CURRENT, fresh.name)
    for name in files:
        if not (folder / name).is_symlink():
            _link(folder / name, f"{_CURRENT}/{name}")
    for old in folder.glob("..*"):
        if old != fresh and not old.is_symlink():
            shutil.rmtree(old)


def _link(path: Path, target: str) -> None:
    """Let a link point there, in one step whatever was there before."""
    draft = path.with_name(f"{path.name}_tmp")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.rename(path)
