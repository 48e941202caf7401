"""Encoded resources as proto-JSON, read by Google's protobuf library: an eye other than our own codec's.

Istio's own messages, and what Envoy's contrib builds add, are not in xds-protos: they are compiled from the same small
files that our classes come from.
"""

from __future__ import annotations

import importlib
import pkgutil
import tempfile
from functools import cache
from pathlib import Path

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, json_format

_SOURCES = Path(__file__).parents[2] / "protocol" / "proto_src"


def to_plain(type_url: str, body: bytes) -> dict:
    """The message as JSON would say it, with the field names of the .proto files. Raises on an unknown type."""
    load_messages()
    packed = any_pb2.Any(type_url=type_url, value=body)
    plain = json_format.MessageToDict(packed, preserving_proto_field_name=True)
    del plain["@type"]
    return plain


@cache
def load_messages() -> None:
    """Make every message type known that our resources may contain."""
    for package in (_SOURCES / "packages.txt").read_text().split("\n"):
        if package and not package.startswith("#"):
            _import_package(package.replace("/", "."))
    _add_own_messages()


def _import_package(name: str) -> None:
    try:
        package = importlib.import_module(name)
    except ModuleNotFoundError:
        return  # one of ours
    for module in pkgutil.iter_modules(package.__path__, name + "."):
        if module.name.endswith("_pb2"):
            importlib.import_module(module.name)


def _add_own_messages() -> None:
    from grpc_tools import protoc

    own = (*(_SOURCES / "istio").glob("*.proto"), _SOURCES / "contrib" / "mysql_proxy.proto")
    files = sorted(str(path.relative_to(_SOURCES)) for path in own)
    well_known = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "own.bin")
        failed = protoc.main(["", f"-I{_SOURCES}", f"-I{well_known}", f"--descriptor_set_out={output}", *files])
        assert not failed, "protoc does not accept our own .proto files"
        compiled = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())
    for file in compiled.file:
        descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
