"""What the API server shows to the servers of aggregated APIs."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509

from slicewright.rehearsal.cluster.control_plane import pki


def names(path: Path) -> tuple[str, str]:
    """Subject and issuer."""
    found = x509.load_pem_x509_certificate(path.read_bytes())
    return found.subject.rfc4514_string(), found.issuer.rfc4514_string()


def test_its_certificate_is_of_a_ca_that_signs_nothing_else(tmp_path: Path) -> None:
    made = pki.ensure(tmp_path / "pki")
    subject, issuer = names(made.cert(pki.FRONT_PROXY))
    assert subject == f"CN={pki.FRONT_PROXY}"
    assert names(made.front_proxy_ca) == (issuer, issuer)
    others = [file for file in made.directory.glob("*.crt") if file.stem != pki.FRONT_PROXY]
    assert [file.name for file in others if names(file)[1] == issuer] == ["front-proxy-ca.crt"]


def test_a_cluster_of_an_earlier_version_gets_it_and_keeps_its_other_certificates(
    tmp_path: Path,
) -> None:
    made = pki.ensure(tmp_path / "pki")
    before = {file.name: file.read_bytes() for file in made.directory.iterdir()}
    # Its making was interrupted, too.
    made.key(pki.FRONT_PROXY).unlink()
    pki.ensure(tmp_path / "pki")
    after = {file.name: file.read_bytes() for file in made.directory.iterdir()}
    assert after.keys() == before.keys()
    changed = {name for name, content in after.items() if content != before[name]}
    assert changed == {name for name in before if name.startswith("front-proxy-")}
    assert pki.ensure(tmp_path / "pki") == made
    assert {file.name: file.read_bytes() for file in made.directory.iterdir()} == after
