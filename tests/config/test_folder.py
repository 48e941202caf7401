"""A folder as a source: what is in force after files change, break, vanish and contradict each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trierarch.config.findings import Rejected
from trierarch.config.folder import Content, Folder, FolderChange, FolderState, is_config_path, update_folder
from trierarch.config.objects import Origin

FOLDER = Folder(source="files", cluster="Kubernetes")
FURTHER = Folder(source="further", cluster="west", kubernetes_only=True)

SERVICE = """apiVersion: v1
kind: Service
metadata: {name: %s}
spec: {clusterIP: %s}
"""
ENTRY = """apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: pay}
spec:
  hosts: [pay.example.com]
  ports: [{number: %s, name: tls, protocol: TLS}]
  resolution: DNS
"""
BROKEN = "a: [1, 2\n"


def service(name: str, address: str = "10.0.0.1") -> str:
    """A document that defines a Service."""
    return SERVICE % (name, address)


def file(*documents: str) -> bytes:
    """A file of documents."""
    return "---\n".join(documents).encode()


class Scenario:
    """A folder over time."""

    def __init__(self, folder: Folder = FOLDER) -> None:
        self.folder = folder
        self.state = FolderState()
        self.parsed = 0

    def write(self, **contents: Content) -> FolderChange:
        """Write files (their names without suffix) and take what it changes."""
        steps = update_folder(self.folder, self.state, {f"{name}.yaml": data for name, data in contents.items()})
        self.parsed = 0
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                self.state, change = stop.value
                return change
            self.parsed += 1

    def addresses(self) -> dict[str, str]:
        """The Services in force and their addresses."""
        return {key.name: each.spec.cluster_ip for key, each in self.state.objects.items() if key.kind == "Service"}


def names(change: FolderChange) -> tuple[set[str], set[str]]:
    """The names of what was set and of what was deleted."""
    return {each.key.name for each in change.upserts}, {key.name for key in change.deletes}


def test_only_new_documents_are_parsed():
    """A document that is still there is known by its text, wherever it moved; its line follows."""
    scenario = Scenario()
    scenario.write(a=file(service("one"), service("two")))
    assert scenario.parsed == 2
    change = scenario.write(a=file(service("zero"), service("one"), service("two")))
    assert scenario.parsed == 1
    assert names(change) == ({"zero"}, set())
    lines = [each.origin.line for each in scenario.state.files["a.yaml"].objects.values()]
    assert lines == [1, 6, 11]


def test_an_unchanged_file_is_not_even_split():
    """The same bytes again change nothing."""
    scenario = Scenario()
    scenario.write(a=file(service("one")))
    before = scenario.state.files["a.yaml"]
    change = scenario.write(a=file(service("one")))
    assert scenario.state.files["a.yaml"] is before
    assert names(change) == (set(), set())


def test_what_vanishes_is_deleted():
    """A vanished document and a vanished file are deletions."""
    scenario = Scenario()
    scenario.write(a=file(service("one"), service("two")), b=file(service("three")))
    assert names(scenario.write(a=file(service("two")))) == (set(), {"one"})
    assert names(scenario.write(b=None)) == (set(), {"three"})
    assert scenario.addresses() == {"two": "10.0.0.1"}


def test_nothing_is_deleted_while_a_document_is_unparsable():
    """The file's last good objects stay, the good documents beside the broken one count, and healing catches up."""
    scenario = Scenario()
    scenario.write(a=file(service("one"), service("two")))
    change = scenario.write(a=file(service("one", "10.9.9.9"), BROKEN, service("three")))
    assert names(change) == ({"one", "three"}, set())
    assert [(each.origin.path, each.origin.line) for each in change.rejected] == [("a.yaml", 7)]
    assert scenario.addresses() == {"one": "10.9.9.9", "two": "10.0.0.1", "three": "10.0.0.1"}
    healed = scenario.write(a=file(service("one", "10.9.9.9"), service("three")))
    assert names(healed) == (set(), {"two"})
    assert healed.rejected == ()


def test_an_object_that_nobody_can_name_protects_its_file():
    """A document without a name might be any of the file's objects."""
    scenario = Scenario()
    scenario.write(a=file(service("one")))
    change = scenario.write(a=file("apiVersion: v1\nkind: Service\nmetadata: {}\n"))
    assert names(change) == (set(), set())
    assert change.rejected[0].path == "metadata.name"


def test_a_refused_object_keeps_its_last_good_version():
    """Only that object: others of the file may vanish meanwhile."""
    scenario = Scenario()
    scenario.write(a=file(ENTRY % 443, service("one")))
    change = scenario.write(a=file(ENTRY % "[]"))
    assert names(change) == (set(), {"one"})
    assert [each.path for each in change.rejected] == ["spec.ports[0].number"]
    (entry,) = scenario.state.objects.values()
    assert entry.spec.ports[0].number == 443
    assert names(scenario.write(a=file(ENTRY % 444))) == ({"pay"}, set())


def test_the_last_file_by_path_wins_and_the_other_returns():
    """A definition in a later file counts, with a remark; when it goes, the earlier one returns."""
    scenario = Scenario()
    scenario.write(a=file(service("one", "10.0.0.1")))
    change = scenario.write(b=file(service("one", "10.0.0.2")))
    assert scenario.addresses() == {"one": "10.0.0.2"}
    assert [(each.origin.path, each.reason) for each in change.remarks] == [
        ("b.yaml", "also defined in a.yaml:1, which does not count")
    ]
    assert names(scenario.write(a=file(service("one", "10.0.0.3")))) == (set(), set())
    back = scenario.write(b=None)
    assert scenario.addresses() == {"one": "10.0.0.3"}
    assert names(back) == ({"one"}, set())
    assert back.remarks == ()


def test_the_last_document_of_a_file_wins():
    """An object twice in one file: the last counts, with a remark."""
    scenario = Scenario()
    change = scenario.write(a=file(service("one", "10.0.0.1"), service("one", "10.0.0.2")))
    assert scenario.addresses() == {"one": "10.0.0.2"}
    assert [each.reason for each in change.remarks] == ["also defined at line 1 of this file, which does not count"]


def test_a_file_that_cannot_be_read_says_what_it_said():
    """An unreadable file loses nothing; its reason is a finding until it is read again."""
    scenario = Scenario()
    scenario.write(a=file(service("one")))
    refusal = Rejected(origin=Origin(source="files", path="a.yaml"), key=None, path="", reason="permission denied")
    assert scenario.write(a=refusal).rejected == (refusal,)
    assert scenario.addresses() == {"one": "10.0.0.1"}
    assert scenario.write(a=file(service("one"))).rejected == ()


def test_kinds_not_understood_are_named_once():
    """Each unknown kind is told when it is first seen, however often it comes."""
    scenario = Scenario()
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
    change = scenario.write(a=file(config % "x", config % "y"))
    assert [(each.kind, each.origin.line) for each in change.unknown_kinds] == [("ConfigMap", 1)]
    assert scenario.write(b=file(config % "z")).unknown_kinds == ()


def test_a_further_cluster_has_only_kubernetes_kinds():
    """Istio kinds in the folder of a further cluster do not count there."""
    scenario = Scenario(FURTHER)
    change = scenario.write(a=file(service("one"), ENTRY % 443))
    assert [each.key.cluster for each in change.upserts] == ["west"]
    assert [each.kind for each in change.unknown_kinds] == ["ServiceEntry"]


def test_items_of_a_list_are_objects_of_their_own():
    """A bad item is named by its place and does not stop the others."""
    scenario = Scenario()
    items = "[{apiVersion: v1, kind: Service, metadata: {name: one}}, {kind: Service}]"
    change = scenario.write(a=f"apiVersion: v1\nkind: List\nitems: {items}\n".encode())
    assert names(change) == ({"one"}, set())
    assert [each.path for each in change.rejected] == ["items[1].apiVersion"]


def test_which_files_are_read():
    """By suffix, and nothing hidden, as also the targets of a mounted ConfigMap are."""
    assert [is_config_path(path) for path in ("a.yaml", "x/b.yml", "c.json")] == [True, True, True]
    assert [is_config_path(path) for path in ("a.txt", ".a.yaml", "..data/a.yaml", "x/.git/a.yaml")] == [False] * 4


PIECES = st.sampled_from(["one", "two", "three"]).flatmap(
    lambda name: st.sampled_from([service(name, "10.0.0.1"), service(name, "10.0.0.2"), BROKEN])
)
CONTENTS = st.none() | st.lists(PIECES, max_size=3).map(lambda documents: file(*documents))
EDITS = st.lists(st.dictionaries(st.sampled_from("abc"), CONTENTS, min_size=1), max_size=8)


@given(EDITS)
def test_changes_add_up_to_the_state(edits: list[dict[str, Content]]):
    """Whoever applies the changes has the state's objects; an object that is in force is defined by the last provider.

    And whatever happened before, files without broken documents mean what they mean in a fresh folder.
    """
    scenario = Scenario()
    mirror: dict[object, bytes] = {}
    contents: dict[str, Content] = {}
    for edit in edits:
        change = scenario.write(**edit)
        contents |= edit
        for key in change.deletes:
            del mirror[key]
        mirror |= {each.key: each.digest for each in change.upserts}
        assert mirror == {key: each.digest for key, each in scenario.state.objects.items()}
        for key, paths in scenario.state.providers.items():
            assert scenario.state.objects[key].digest == scenario.state.files[max(paths)].objects[key].digest
    if not any(isinstance(data, bytes) and BROKEN.encode() in data for data in contents.values()):
        fresh = Scenario()
        fresh.write(**contents)
        assert fresh.addresses() == scenario.addresses()
