"""What several sources say, merged into one view."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trierarch.config.gathering import KEYS_PER_STEP, Gathering, find_changes
from trierarch.config.objects import ConfigObject, ObjectKey, Origin
from trierarch.config.store import ConfigView
from trierarch.push.steps import run_steps


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


def take(gathering, source, upserts, deletes=(), *, full=False):
    """All steps at once."""
    return run_steps(gathering.take(source, upserts, deletes, full=full))


def test_changes_say_what_was_and_what_is():
    """New and other ones in the order told, then those that are gone; what says the same is no change."""
    gathering = Gathering(["one"])
    assert names(take(gathering, "one", [subject("b"), subject("a")])) == [("b", None, "1"), ("a", None, "1")]
    assert take(gathering, "one", [subject("a")]) == ()
    assert names(take(gathering, "one", [subject("b", "2")], [subject("a").key])) == [("b", "1", "2"), ("a", "1", None)]


def test_the_later_source_counts_and_the_other_returns():
    """An object of two sources is the later one's, whoever spoke last; without it the other's is back."""
    gathering = Gathering(["one", "two"])
    take(gathering, "two", [subject("a", "two")])
    assert take(gathering, "one", [subject("a", "one")]) == ()
    assert names(take(gathering, "two", [], full=True)) == [("a", "two", "one")]
    assert names(take(gathering, "one", [], [subject("a").key])) == [("a", "one", None)]


def test_deleting_what_is_not_there_is_no_change():
    """A source may say again that something is gone."""
    assert take(Gathering(["one"]), "one", [], [subject("a").key]) == ()


def test_much_is_taken_in_in_steps():
    """A step for each so many objects, for a source's news as for the difference of two views."""
    gathering = Gathering(["one"])
    steps = list(gathering.take("one", [subject(f"s-{number}") for number in range(3 * KEYS_PER_STEP)]))
    assert len(steps) == 4
    assert len(list(find_changes(ConfigView(), gathering.view))) == 3
    assert len(run_steps(find_changes(gathering.view, ConfigView()))) == 3 * KEYS_PER_STEP


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
        said, unsaid = [subject(*each) for each in upserts.items()], [subject(name).key for name in deletes]
        changes = take(gathering, source, said, unsaid, full=full)
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
