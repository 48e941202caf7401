"""What a mesh that was put to the test must not show afterwards."""

from __future__ import annotations


def check_traces(mesh):
    """Nothing is left of streams that are gone, and every push is explained."""
    children = mesh.system.handle.statistics()
    assert sum(child.supervisor == "connections" for child in children) == len(mesh.envoys)
    connected = mesh.system.metrics.registry.get_sample_value("pilot_xds", {"version": ""})
    assert connected == len(mesh.envoys)
    for record in mesh.records:
        assert record.causes.kept or record.reasons.keys() & {"proxyrequest", "restart"}, record


def check_causes(mesh, lines, envoys):
    """Each change that was logged is among the causes of some record of each of these Envoys: none was lost."""
    changes = [line for line in lines if line["event"] == "config_changed"]
    made = {number for line in changes for number in range(line["first_cause"], line["last_cause"] + 1)}
    for envoy in envoys:
        told = {cause.id for record in mesh.records_of(envoy) for cause in record.causes.kept}
        assert told >= made, (envoy, sorted(made - told))


def no_actor_failed(lines):
    """Whether nobody crashed by itself or did not end when told to, as these lines tell."""
    return not [line for line in lines if line["event"] in {"child_crashed", "shutdown_overdue"}]
