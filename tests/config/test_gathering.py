"""What several sources say, merged into one view."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trierarch.config.gathering import Gathering
from trierarch.config.objects import ConfigObject, ObjectKey, Origin


def subject(name, text="1"):
    """An object that says some text."""
    key = ObjectKey("Kubernetes", "Service", "shop", name)
    return ConfigObject(key=key, spec=text, digest=text.encode(), origin=Origin(source="x"))


def names(changes):
    """Which objects changed, and how."""
    return [
        (each.key.name, each.before.spec if each.before else None, each.after.spec if each.after else None)
        for each in changes
    ]


def test_changes_say_what_was_and_what_is():
    """New, other, gone, in the order of keys; what says the same is no change."""
    gathering = Gathering(["one"])
    assert names(gathering.take("one", [subject("b"), subject("a")])) == [("a", None, "1"), ("b", None, "1")]
    assert gathering.take("one", [subject("a")]) == ()
    assert names(gathering.take("one", [subject("b", "2")], [subject("a").key])) == [("a", "1", None), ("b", "1", "2")]


def test_the_later_source_counts_and_the_other_returns():
    """An object of two sources is the later one's, whoever spoke last; without it the other's is back."""
    gathering = Gathering(["one", "two"])
    gathering.take("two", [subject("a", "two")])
    assert gathering.take("one", [subject("a", "one")]) == ()
    assert names(gathering.take("two", [], full=True)) == [("a", "two", "one")]
    assert names(gathering.take("one", [], [subject("a").key])) == [("a", "one", None)]


def test_deleting_what_is_not_there_is_no_change():
    """A source may say again that something is gone."""
    assert Gathering(["one"]).take("one", [], [subject("a").key]) == ()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two"]),
        st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3),
        st.frozensets(st.sampled_from("abc")),
        st.booleans(),
    ),
    max_size=12,
)


@given(STEPS)
def test_the_view_is_what_the_sources_say(steps):
    """After any steps the view is the union of what each source says, the later source winning; and the changes told
    lead from each view to the next.
    """
    gathering, tables, seen = Gathering(["one", "two"]), {"one": {}, "two": {}}, {}
    for source, upserts, deletes, full in steps:
        changes = gathering.take(
            source, [subject(name, text) for name, text in upserts.items()], [subject(name).key for name in deletes],
            full=full,
        )  # fmt: skip
        for name in set(tables[source]) if full else deletes:
            tables[source].pop(name, None)
        tables[source] |= upserts
        for name, before, after in names(changes):
            assert seen.get(name) == before != after
            seen[name] = after
        assert {name: text for name, text in seen.items() if text} == tables["one"] | tables["two"]
        assert {key.name: each.spec for key, each in gathering.view.table("Service").items()} == tables["one"] | tables[
            "two"
        ]
