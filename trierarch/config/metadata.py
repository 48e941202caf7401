"""The metadata that all objects have, as far as it is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trierarch.config.wire import Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What an object is called. What an absent creation time means depends on the kind: see `ConfigObject.created`."""

    name: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    creation_timestamp: Timestamp | None = None
    resource_version: str = ""
