"""MeshNetworks: which endpoints are in which network, and the gateways between them (networking.md §1.4, §3.4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from trierarch.config.wire import Bare, Flattened, OneOf, UInt32


@dataclass(frozen=True, slots=True)
class FromCidr(Bare):
    """Endpoints with addresses in this range."""

    value: str


@dataclass(frozen=True, slots=True)
class FromRegistry(Bare):
    """Endpoints of this registry (a cluster's name)."""

    value: str


NetworkMembers: TypeAlias = Annotated[FromCidr | FromRegistry, OneOf(from_cidr=FromCidr, from_registry=FromRegistry)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkEndpoints:
    """Some of the endpoints of a network."""

    members: Flattened[NetworkMembers | None] = None


@dataclass(frozen=True, slots=True)
class RegistryServiceName(Bare):
    """The gateway is this service, by its full host name."""

    value: str


@dataclass(frozen=True, slots=True)
class GatewayAddress(Bare):
    """The gateway has this address or DNS name."""

    value: str


GatewayTarget: TypeAlias = Annotated[
    RegistryServiceName | GatewayAddress, OneOf(registry_service_name=RegistryServiceName, address=GatewayAddress)
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkGateway:
    """A gateway through which a network is reached from others."""

    gateway: Flattened[GatewayTarget | None] = None
    port: UInt32 = 0
    locality: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """A network: endpoints that reach each other directly."""

    endpoints: tuple[NetworkEndpoints, ...] = ()
    gateways: tuple[NetworkGateway, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeshNetworks:
    """Networks by name."""

    networks: Mapping[str, Network] = field(default_factory=dict)
