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
    """All documents that are not empty. Keys that look like numbers (ports) are strings, as JSON has no others."""
    return [_with_text_keys(document) for document in yaml.load_all(text, _Loader) if document]


def _with_text_keys(value: Any) -> Any:  # noqa: ANN401 - any YAML
    if isinstance(value, dict):
        return {str(key): _with_text_keys(item) for key, item in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, list) else value
