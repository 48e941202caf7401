"""Wire formats and peers' state machines.

What lives here: names, versions, bytes and the rules by which a peer speaks. What must not: trio, logging, a clock,
sockets, and any knowledge of what the bytes mean (that is `trierarch`).
"""
