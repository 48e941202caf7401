"""gRPC for trio: the protocol layer of grpclib and h2 on a transport made of trio.

    ports.StreamPort       what a handler sees (actors/ports.py; importing it imports none of this)
    server.Server          listen, accept, keep alive, drain
    connection             one nursery per peer
    meter  budget          what its frames cost, before h2 sees them
    calls                  one task per stream: handler, deadline, trailers
    requests               first headers: accepted or refused
    http2  bounded_h2      grpclib's and h2's classes, subclassed: streams, flow control
    messages  framing      gRPC messages in, DATA frames out
    transport  tls         a socket, plain or encrypted

Only this package imports grpclib or h2, and it knows nothing of xDS. grpclib imports asyncio; no event loop ever runs.
"""

from actors.grpc.faults import PeerFault
from actors.grpc.limits import Limits
from actors.grpc.server import Server
from actors.grpc.statistics import ServerStatistics

__all__ = ["Limits", "PeerFault", "Server", "ServerStatistics"]
