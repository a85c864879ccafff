"""The certificates of one simulated cluster: a CA, and what it signed.

A second CA signs only what the API server shows to the servers of aggregated APIs, which believe
whoever shows that which user asks.

Keys are EC P-256 (a hundred times faster to make than RSA) and readable by the owner only. Made
once per cluster and reused, so that a restarted API server is still trusted by every kubeconfig and
pod that knew the first one.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVICE_NETWORK = "10.96.0.0/16"
"""Range of Service addresses; its first address is the API server's own Service."""
KWOK = "rehearsal-kwok"
"""The user of kwok's certificate; its role is in kwok.py."""
_LIFETIME = datetime.timedelta(days=3650)
# The clock of a virtual machine that is resumed from a snapshot may jump back a little.
_CLOCK_SLACK = datetime.timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class Pki:
    """Files of one cluster's `pki/` directory; every `X.crt` has its `X.key` beside it."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def front_proxy_ca(self) -> Path:
        return self.cert(_FRONT_PROXY_CA)

    def cert(self, name: str) -> Path:
        return self.directory / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"


@dataclass(frozen=True, kw_only=True)
class _Leaf:
    """One certificate to be signed."""

    name: str
    common_name: str
    organization: str | None = None
    dns: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def serves(self) -> bool:
        return bool(self.dns or self.addresses)


_LEAVES: Sequence[_Leaf] = (
    _Leaf(
        name="apiserver",
        common_name="kube-apiserver",
        dns=(
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ),
        addresses=("127.0.0.1", "10.96.0.1"),
    ),
    # The kubelet stand-in's server certificate, for `kubectl logs`.
    _Leaf(
        name="kubelet-serving", common_name="kubelet", dns=("localhost",), addresses=("127.0.0.1",)
    ),
    # The API server's client certificate; the kubelet stand-in checks the CA and this name.
    _Leaf(name="apiserver-kubelet-client", common_name="kube-apiserver-kubelet-client"),
    _Leaf(name="admin", common_name="rehearsal-admin", organization="system:masters"),
    _Leaf(name="controller-manager", common_name="system:kube-controller-manager"),
    _Leaf(name="scheduler", common_name="system:kube-scheduler"),
    _Leaf(name="kwok", common_name=KWOK),
    # It impersonates each node's kubelet (kubelets.py).
    _Leaf(name="kubelet", common_name="rehearsal-kubelet", organization="system:masters"),
)
FRONT_PROXY = "front-proxy-client"
"""The name in the API server's certificate for servers of aggregated APIs, and its file's."""
_FRONT_PROXY_CA = "front-proxy-ca"


def ensure(directory: Path) -> Pki:
    """The cluster's certificates, created if there are none; the directory appears complete."""
    if not directory.exists():
        unfinished = directory.with_name(f".{directory.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700, parents=True)
        _make(unfinished)
        unfinished.rename(directory)
    if not (directory / f"{FRONT_PROXY}.key").exists():  # it was made by an earlier version
        _make_front_proxy(directory)
    return Pki(directory=directory)


def _make(directory: Path) -> None:
    ca, ca_key = _make_ca(directory, "ca", "slicewright-rehearsal-ca")
    for leaf in _LEAVES:
        _make_leaf(directory, leaf, ca, ca_key)
    _make_front_proxy(directory)
    accounts = ec.generate_private_key(ec.SECP256R1())
    _write(directory / "service-accounts.key", _pem(accounts))
    public = accounts.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write(directory / "service-accounts.pub", public)


def _make_front_proxy(directory: Path) -> None:
    for name in (_FRONT_PROXY_CA, FRONT_PROXY):
        for suffix in ("crt", "key"):
            (directory / f"{name}.{suffix}").unlink(missing_ok=True)
    ca, ca_key = _make_ca(directory, _FRONT_PROXY_CA, "slicewright-rehearsal-front-proxy-ca")
    _make_leaf(directory, _Leaf(name=FRONT_PROXY, common_name=FRONT_PROXY), ca, ca_key)


def _make_ca(
    directory: Path, name: str, common_name: str
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(common_name)
    builder = (
        _builder(subject, subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(directory / f"{name}.crt", builder.public_bytes(serialization.Encoding.PEM))
    _write(directory / f"{name}.key", _pem(key))
    return builder, key


def _make_leaf(
    directory: Path, leaf: _Leaf, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    signed = _sign(leaf, key.public_key(), ca, ca_key)
    _write(directory / f"{leaf.name}.crt", signed.public_bytes(serialization.Encoding.PEM))
    _write(directory / f"{leaf.name}.key", _pem(key))


def _sign(
    leaf: _Leaf,
    public: ec.EllipticCurvePublicKey,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if leaf.serves else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _builder(_name(leaf.common_name, leaf.organization), ca.subject, public)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    if leaf.serves:
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in leaf.dns]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in leaf.addresses]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(ca_key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SLACK)
        .not_valid_after(now + _LIFETIME)
    )


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = (
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    )
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    # OpenSSL 3.x in Python's strict mode refuses a CA without keyCertSign, and a leaf with it.
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
