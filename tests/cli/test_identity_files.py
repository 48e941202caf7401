"""The files of an identity: who may read them, and that all of them change at one moment."""

from __future__ import annotations

import json
import stat

from trierarch.cli.identity_files import write_identity


def write(folder, number):
    """Write the identity of that number."""
    key, chain, roots = (f"{word} {number}\n".encode() for word in ("key", "chain", "roots"))
    write_identity(folder, key=key, chain=chain, roots=roots)


def contents(folder):
    """What a reader finds, by name."""
    return {path.name: path.read_text() for path in folder.iterdir() if not path.name.startswith("..")}


def test_pem_files_and_secrets(tmp_path):
    """The names of Istio's agent, and beside them the secrets as Envoy reads them."""
    write(tmp_path / "new" / "id", 1)
    found = contents(tmp_path / "new" / "id")
    assert {name: text for name, text in found.items() if name.endswith(".pem")} == {
        "cert-chain.pem": "chain 1\n",
        "key.pem": "key 1\n",
        "root-cert.pem": "roots 1\n",
    }
    (secret,) = json.loads(found["default.yaml"])["resources"]
    assert secret["name"] == "default"
    assert secret["tls_certificate"] == {
        "certificate_chain": {"inline_string": "chain 1\n"},
        "private_key": {"inline_string": "key 1\n"},
    }
    (roots,) = json.loads(found["ROOTCA.yaml"])["resources"]
    assert roots["validation_context"] == {"trusted_ca": {"inline_string": "roots 1\n"}}


def test_nobody_else_can_read_them(tmp_path):
    """Mode 0600, in folders of mode 0700."""
    write(tmp_path / "id", 1)
    for path in (tmp_path / "id").rglob("*"):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path


def test_all_change_at_one_moment(tmp_path):
    """Each name leads through one link; whoever holds the folder behind it open sees one identity. The old one goes."""
    write(tmp_path, 1)
    before = (tmp_path / "..data").resolve()
    links = {path.name: path.readlink() for path in tmp_path.iterdir() if path.is_symlink()}
    write(tmp_path, 2)
    after = {path.name: path.readlink() for path in tmp_path.iterdir() if path.is_symlink()}
    assert {name for name in links if links[name] != after[name]} == {"..data"}
    assert contents(tmp_path)["key.pem"] == "key 2\n"
    assert not before.exists()


def test_what_a_killed_writer_left_behind_goes(tmp_path):
    """A folder that was never put in its place does not stay for ever."""
    write(tmp_path, 1)
    (tmp_path / "..half").mkdir()
    (tmp_path / "..half" / "key.pem").write_text("half")
    (tmp_path / "..data_tmp").symlink_to("..half")
    write(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.glob("..*") if path.name != "..data") == [
        (tmp_path / "..data").readlink().name
    ]


def test_a_plain_file_gives_way(tmp_path):
    """Files that somebody wrote by hand are replaced."""
    (tmp_path / "key.pem").write_text("by hand")
    write(tmp_path, 1)
    assert contents(tmp_path)["key.pem"] == "key 1\n"
