"""What a client sees otherwise than anybody does, laid over what anybody sees."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.envoy.meshes import destination_rule, egress, external, outlook, scope, service, virtual_service
from tests.envoy.samples import outbound_key
from trierarch.envoy.host_names import SHORTEST_RUN, select_caller, select_names
from trierarch.envoy.memo import Memo
from trierarch.envoy.outbound_view import select_outbound_view
from trierarch.envoy.route_tables import NO_MEMBERS, build_table, index_services
from trierarch.envoy.surroundings import see_as_client
from trierarch.envoy.virtual_host_runs import hosts_of
from trierarch.envoy.virtual_host_selection import Scene, select_virtual_hosts, think_of_all
from trierarch.push.steps import run_steps
from trierarch.push.view import ScopeKey

NAMESPACES = ("shop", "bank", "post", "farm")
LABELS = frozenset({("app", "web")})


def in_namespace(namespace, name, *ports, **changes):
    """A service of another namespace."""
    hostname = f"{name}.{namespace}.svc.cluster.local"
    return replace(service(name, *ports), hostname=hostname, namespace=namespace, **changes)


def client(namespace):
    """The key of a client of that namespace."""
    domain = f"{namespace}.svc.cluster.local"
    return outbound_key(scope=ScopeKey(namespace, None), dns_domain=domain, labels=LABELS)


def table_of(listener, key, port, memo, rules=()):
    """What a client's route configuration is made for."""
    view = select_outbound_view(outlook(scope(listener, rules=rules), key))
    members = run_steps(index_services(listener.services, memo)).get(port, NO_MEMBERS)
    return build_table(view, listener, port, members)


def shown(runs):
    """All that can be seen of virtual hosts, in their order."""
    return [(host.name, host.domains, host.encoded) for host in hosts_of(runs)]


def by_itself(table, memo):
    """The virtual hosts of a client, all of them thought of for it alone."""
    names = run_steps(select_names((table.members, select_caller(table.view, table.port)), memo))
    around = see_as_client(table, names, memo)
    return run_steps(think_of_all(Scene(around, table.virtual_services), memo)).runs


SERVICES = st.lists(
    st.builds(
        in_namespace,
        st.sampled_from(NAMESPACES),
        st.sampled_from(["web", "api", "pay", "bank"]),
        st.sampled_from(["80/HTTP", "80/GRPC", "81/HTTP", "80"]),
        st.sampled_from(["80/HTTP", "81/HTTP", "9000/TCP"]),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda each: each.hostname,
)
RULES = st.builds(
    virtual_service,
    st.sampled_from(
        [
            "{hosts: [web], http: [{route: [{destination: {host: api}}]}]}",
            "{hosts: [web, web.bank], http: [{match: [{sourceLabels: {app: web}}], redirect: {uri: /c}}]}",
            "{hosts: [api], http: [{match: [{sourceNamespace: bank}], redirect: {uri: /b}}, {redirect: {uri: /a}}]}",
            "{hosts: ['*.bank.svc.cluster.local'], http: [{redirect: {uri: /all}}]}",
            "{hosts: ['*.svc.cluster.local'], http: [{match: [{port: 80}], redirect: {uri: /most}}]}",
            "{hosts: ['*.example'], http: [{redirect: {uri: /x}}]}",
            "{hosts: [a.example, pay.post.svc], http: [{redirect: {uri: /y}}]}",
        ]
    ),
    namespace=st.sampled_from(NAMESPACES),
)


@settings(max_examples=settings.default.max_examples // 2)
@given(SERVICES, st.sets(st.sampled_from(["pay", "web.shop"])), st.lists(RULES, max_size=4), st.sampled_from([80, 81]))
@example([in_namespace(each, "web", "80/HTTP") for each in NAMESPACES], set(), [], 80)
@example([in_namespace(each, "pay", "80/HTTP") for each in NAMESPACES], {"pay"}, [], 80)
def test_a_client_sees_what_it_would_if_all_were_thought_of_for_it_alone(services, outside, virtual, port):
    """In every namespace, in whatever order they ask, whatever virtual services say of who the client is, and where
    hosts outside of the mesh are called as the client calls its neighbours.
    """
    memo = Memo(10_000)
    listener = egress(*services, *(external(host, "80/HTTP") for host in sorted(outside)), virtual=virtual)
    for namespace in NAMESPACES:
        table = table_of(listener, client(namespace), port, memo)
        assert shown(run_steps(select_virtual_hosts(table, memo))) == shown(by_itself(table, Memo(10_000)))


POLICY = "{{host: web.{}.svc.cluster.local, trafficPolicy: {{loadBalancer: {{consistentHash: {{{}}}}}}}}}"
POLICIES = [
    destination_rule(POLICY.format(namespace, hashed))
    for namespace in NAMESPACES
    for hashed in ("useSourceIp: true", "httpHeaderName: x")
]


@settings(max_examples=settings.default.max_examples // 2)
@given(SERVICES, st.lists(RULES, max_size=4), st.data())
def test_what_is_remembered_of_other_meshes_does_not_show(services, virtual, data):
    """Services, virtual services and rules for destinations come and go, with much and with little room to remember."""
    memo = Memo(data.draw(st.sampled_from([20, 10_000])))
    for _ in range(5):
        some = data.draw(st.lists(st.sampled_from(services), unique=True))
        listener = egress(*some, virtual=[each for each in virtual if data.draw(st.booleans())])
        rules = data.draw(st.lists(st.sampled_from(POLICIES), max_size=4, unique_by=lambda each: each.host))
        for namespace in NAMESPACES:
            table = table_of(listener, client(namespace), 80, memo, rules)
            assert shown(run_steps(select_virtual_hosts(table, memo))) == shown(by_itself(table, Memo(10_000)))


def many(namespaces=20, each=20):
    """Services of many namespaces, whose names come one after the other."""
    return [
        in_namespace(f"ns-{space}", f"web-{number * namespaces + space}", "80/HTTP")
        for number in range(each)
        for space in range(namespaces)
    ]


def runs_of(services, namespace, memo, virtual=()):
    """The runs that a client of that namespace has."""
    table = table_of(egress(*services, virtual=virtual), client(namespace), 80, memo)
    return run_steps(select_virtual_hosts(table, memo))


def test_what_is_the_same_for_two_namespaces_is_one_run():
    """Only the runs that have a service of either are apart."""
    memo, services = Memo(10_000), many()
    one, two = (runs_of(services, namespace, memo) for namespace in ("ns-1", "ns-2"))
    apart = [run for run in one if run not in two]
    assert one != two
    assert 0 < len(apart) < len(one)
    assert all(any(".ns-1." in host.name or ".ns-2." in host.name for host in run.hosts) for run in apart)


def test_runs_end_where_they_would_for_the_client_alone():
    """Or one configuration would have two versions, by the way it was thought of."""
    memo = Memo(10_000)
    table = table_of(egress(*many()), client("ns-1"), 80, memo)
    laid, alone = run_steps(select_virtual_hosts(table, memo)), by_itself(table, Memo(10_000))
    assert len(laid) > 5
    assert [shown([run]) for run in laid] == [shown([run]) for run in alone]


def test_a_changed_virtual_service_is_another_run():
    """All the others are the very same."""
    memo, services, ways = Memo(10_000), many(), ("/a", "/b")
    specs = (f"{{hosts: [web-7.ns-7.svc.cluster.local], http: [{{redirect: {{uri: {way}}}}}]}}" for way in ways)
    before, after = (runs_of(services, "ns-1", memo, [virtual_service(spec)]) for spec in specs)
    assert len([run for run in after if run not in before]) == 1


def test_a_service_that_comes_leaves_most_runs_as_they_are():
    """Where runs end is decided by names near there, so the division does not shift."""
    memo, services = Memo(10_000), many()
    before = runs_of(services, "ns-1", memo)
    after = runs_of([*services, in_namespace("ns-3", "web-100a", "80/HTTP")], "ns-1", memo)
    assert len([run for run in after if run not in before]) <= 3
    assert all(len(run.hosts) >= SHORTEST_RUN for run in after[:-1])
    assert len(after) > 5


def test_names_of_neighbours_stay_as_they_are_when_a_service_comes_elsewhere():
    """The very same objects, so that what was thought of them is found again; a new neighbour makes others."""
    memo, services, key = Memo(10_000), many(), client("ns-1")
    neighbour = in_namespace("ns-1", "new", "80/HTTP")

    def names(*more):
        table = table_of(egress(*services, *more), key, 80, memo)
        return run_steps(select_names((table.members, select_caller(table.view, 80)), memo))

    before, elsewhere, near = names(), names(in_namespace("ns-3", "new", "80/HTTP")), names(neighbour)
    assert elsewhere.own is before.own
    assert elsewhere.claims is before.claims
    assert near.own.by_host.keys() - before.own.by_host.keys() == {neighbour.hostname}
