"""What a mesh that was put to the test must not show afterwards."""

from __future__ import annotations

from cryptography.x509 import SubjectAlternativeName, UniformResourceIdentifier, load_pem_x509_certificates

from actors.identity_messages import RootsAsked
from actors.mailbox import ask
from protocol.codec import decode
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import Secret
from tests.actors.fake_stream import SECRETS


async def check_aftermath(mesh, lines, staying):
    """Everybody has what a fresh build has, and their secrets; nothing is left of what has gone, and each change that
    these lines tell of is a cause that was told to whoever of `staying` has kept its stream.
    """
    mesh.check()
    await check_secrets(mesh)
    check_traces(mesh)
    check_causes(mesh, lines, [envoy for envoy in staying if envoy.streams == 1])


def check_traces(mesh):
    """Nothing is left of streams that are gone, and every push is explained."""
    children = mesh.system.shared.handle.statistics()
    assert sum(child.supervisor == "connections" for child in children) == len(mesh.envoys)
    connected = mesh.system.shared.metrics.registry.get_sample_value("pilot_xds", {"version": ""})
    assert connected == len(mesh.envoys)
    for record in mesh.records:
        assert record.causes.kept or record.reasons.keys() & {"proxyrequest", "restart"}, record


def check_causes(mesh, lines, envoys):
    """Each change that was logged is among the causes of some record of each of these Envoys: none was lost, and none
    is taken for another.
    """
    changes = [line for line in lines if line["event"] == "config_changed"]
    numbers = [number for line in changes for number in range(line["first_cause"], line["last_cause"] + 1)]
    made = set(numbers)
    assert len(made) == len(numbers)
    for envoy in envoys:
        told = {cause.id for record in mesh.records_of(envoy) for cause in record.causes.kept}
        assert told >= made, (envoy, sorted(made - told))


async def check_secrets(mesh):
    """Who has proved an identity has its certificate, under the roots in force."""
    news = await ask(mesh.system.shared.mail.authority, lambda reply: RootsAsked(reply=reply))
    roots = load_pem_x509_certificates(news.roots_pem)
    for envoy in mesh.envoys:
        assert set(envoy.secrets) == (set(SECRETS) if envoy.caller else set()), envoy
        if envoy.caller:
            own, trusted = (decode(Secret, envoy.secrets[name]) for name in SECRETS)
            assert trusted.validation_context.trusted_ca.inline_bytes == news.roots_pem
            leaf, *_ = load_pem_x509_certificates(own.tls_certificate.certificate_chain.inline_bytes)
            leaf.verify_directly_issued_by(roots[0])
            names = leaf.extensions.get_extension_for_class(SubjectAlternativeName).value
            assert tuple(names.get_values_for_type(UniformResourceIdentifier)) == envoy.caller.identities


async def check_serving(mesh):
    """The secure port is served with a certificate of the newest authority."""
    news = await ask(mesh.system.shared.mail.authority, lambda reply: RootsAsked(reply=reply))
    newest = mesh.outside.served[-1]
    assert newest.roots == news.roots_pem
    leaf, *_ = load_pem_x509_certificates(newest.chain)
    leaf.verify_directly_issued_by(load_pem_x509_certificates(news.roots_pem)[0])


def no_actor_failed(lines):
    """Whether nobody crashed by itself or did not end when told to, as these lines tell."""
    return not [line for line in lines if line["event"] in {"child_crashed", "shutdown_overdue"}]
