"""Random edits of the mesh in `tests.actors.meshes`: each takes the mesh and the dice."""

from __future__ import annotations

from tests.actors.meshes import routing


def edit_routing(mesh, dice):
    """Another timeout."""
    mesh.edit(routing(dice.randint(2, 9)))


def edit_endpoints(mesh, dice):
    """Another set of addresses."""
    addresses = [f"10.1.{dice.randint(0, 3)}.{number}" for number in range(dice.randint(1, 3))]
    mesh.edit(f"""
        EndpointSlice shop/web-1:
          metadata: {{labels: {{kubernetes.io/service-name: web}}}}
          addressType: IPv4
          ports: [{{name: http, port: 8080}}]
          endpoints: [{{addresses: [{", ".join(addresses)}], conditions: {{ready: true}}}}]
    """)


def edit_services(mesh, dice):
    """A service comes, changes or goes."""
    name = f"extra-{dice.randint(1, 2)}"
    if dice.random() < 0.3:
        mesh.delete("Service", f"shop/{name}")
    else:
        port = dice.randint(80, 82)
        mesh.edit(f"Service shop/{name}: {{ports: [{{name: http, port: {port}}}], selector: {{app: web}}}}")


def edit_labels(mesh, dice):
    """A Pod becomes part of the service, or no longer is: its proxy moves to another view."""
    app = dice.choice(["web", "other"])
    mesh.edit(f"""
        Pod shop/web-2:
          metadata: {{labels: {{app: {app}}}}}
          containers: [{{name: app}}]
          status: {{phase: Running, podIP: 10.1.0.2}}
    """)


def edit_sidecars(mesh, dice):
    """A Sidecar narrows a namespace, or no longer does."""
    if dice.random() < 0.4:
        mesh.delete("Sidecar", "shop/default")
    else:
        hosts = dice.choice(['"./*"', '"./*", "bank/*"', '"~/*"'])
        mesh.edit(f"Sidecar shop/default: {{egress: [{{hosts: [{hosts}]}}]}}")
