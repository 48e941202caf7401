"""Resources and their versions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.xds.resources import Chunk, build_resource, digest, tie_chunks

BODIES = st.lists(st.binary(max_size=3), min_size=1, max_size=4)


def tied(bodies: list[bytes]):
    """A resource of so many chunks."""
    return tie_chunks("a", tuple(map(Chunk, bodies)))


@given(BODIES, BODIES)
def test_equal_versions_mean_equal_bodies(some: list[bytes], others: list[bytes]) -> None:
    """And chunks with the same in them make the same version, whoever made them."""
    one, other = tied(some), tied(others)
    assert one.version == tied(some).version
    assert one.version != other.version or one.body == other.body
    assert (some == others) == (one.version == other.version)


@given(BODIES)
def test_a_body_is_its_chunks(bodies: list[bytes]) -> None:
    """One after the other, as large as they are together."""
    resource = tied(bodies)
    assert resource.body == b"".join(bodies)
    assert resource.size == len(resource.body)
    assert len(resource.version) == 16


@given(st.binary())
def test_the_version_of_a_single_chunk_is_the_digest_of_the_body(body: bytes) -> None:
    """So a resource that is built whole has it, and its body is not copied."""
    resource = build_resource("a", body)
    assert resource.version == digest(body)
    assert resource.body is body
