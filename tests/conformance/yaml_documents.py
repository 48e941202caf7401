"""YAML as Kubernetes tools read it, for the inputs of cases (not the product's reader, which reports line numbers)."""

from __future__ import annotations

from typing import Any

import yaml


class _Loader(yaml.CSafeLoader):
    """Timestamps stay strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def load_documents(text: str) -> list[dict[str, Any]]:
    """All documents that are not empty."""
    return [document for document in yaml.load_all(text, _Loader) if document]
