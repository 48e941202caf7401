"""Nonces of a stream: a counter under the stream's own prefix, so that a run can be repeated exactly.

A nonce must not be given twice on a stream, and a client that reconnects with the nonce of its connection before must
not hit a nonce of the new one. The first is the counter's doing, the second the prefix's: whoever opens a stream gives
it an id that no other stream of the process had.
"""

from __future__ import annotations


def build_nonce(stream: str, number: int) -> str:
    """The nonce of response `number` (from 1) of a stream: `"<stream>-<number>"`."""
    return f"{stream}-{number}"
