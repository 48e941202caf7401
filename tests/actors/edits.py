"""Random edits of the mesh in `tests.actors.meshes`: each takes the mesh and the dice. The last ones are about what is
looked up, fetched or renewed: they need somebody `outside` of the mesh.
"""

from __future__ import annotations

from tests.actors.meshes import gateway, issuer, routing

HOSTS = ("east.example", "west.example", "north.example")


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


def edit_gateway(mesh, dice):
    """A gateway to another network is known by another name, or there is none."""
    if dice.random() < 0.2:
        mesh.edit("MeshNetworks mesh: {}")
    else:
        mesh.edit(gateway(dice.choice(HOSTS)))


def edit_issuer(mesh, dice):
    """Tokens of somebody else are good, or nobody's are looked at."""
    if dice.random() < 0.2:
        mesh.delete("RequestAuthentication", "shop/web")
    else:
        mesh.edit(issuer(dice.choice(HOSTS)))


def change_answers(mesh, dice):
    """Names stand for other addresses, and issuers have other keys."""
    mesh.outside.change()


def age_root(mesh, dice):
    """The authority's own root is due to be renewed."""
    mesh.outside.age()
