"""The Secret of a Certificate whose Issuer is self-signed.

Source: cert-manager docs, SelfSigned.
"""

from __future__ import annotations

import base64
import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from slicewright.kubeapi import JsonObject

_LIFETIME: Final = datetime.timedelta(days=90)
_CLOCK_SLACK: Final = datetime.timedelta(minutes=5)
OF: Final = "cert-manager.io/certificate-name"
NAMES: Final = "cert-manager.io/alt-names"


def secret_of(certificate: JsonObject) -> JsonObject:
    """With a new key of 2048 bits, which is in this Secret only. It signs itself."""
    spec, metadata = certificate["spec"], certificate["metadata"]
    names = list(spec["dnsNames"])
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        # Without a common name, as cert-manager's: clients look at the alternative names only.
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SLACK)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=True
        )
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    data = {"ca.crt": signed, "tls.crt": signed, "tls.key": private}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": spec["secretName"],
            "namespace": metadata["namespace"],
            "annotations": {OF: metadata["name"], NAMES: ",".join(names)},
        },
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def serves(secret: JsonObject, certificate: JsonObject) -> bool:
    """Whether the Secret is the certificate's, for the names that it has now."""
    annotations = secret["metadata"].get("annotations") or {}
    return (
        annotations.get(OF) == certificate["metadata"]["name"]
        and annotations.get(NAMES) == ",".join(certificate["spec"]["dnsNames"])
        and "tls.key" in (secret.get("data") or {})
    )
