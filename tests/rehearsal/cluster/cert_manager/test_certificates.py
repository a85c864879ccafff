"""Secrets of self-signed certificates, as the stand-in for cert-manager makes them."""

from __future__ import annotations

import base64
import copy
from typing import Any

from cryptography import x509

from slicewright.rehearsal.cluster.cert_manager.certificates import secret_of, serves

CERTIFICATE: dict[str, Any] = {
    "metadata": {"name": "c", "namespace": "n"},
    "spec": {"secretName": "c-tls", "dnsNames": ["c.n.svc", "c.n.svc.cluster.local"]},
}


def test_a_secret_has_a_certificate_for_the_names_that_is_its_own_authority() -> None:
    secret = secret_of(CERTIFICATE)
    assert secret["type"] == "kubernetes.io/tls"
    assert secret["data"]["ca.crt"] == secret["data"]["tls.crt"]
    made = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == CERTIFICATE["spec"]["dnsNames"]
    made.verify_directly_issued_by(made)
    assert secret_of(CERTIFICATE)["data"]["tls.key"] != secret["data"]["tls.key"]


def test_a_secret_is_recreated_when_the_names_change() -> None:
    secret = secret_of(CERTIFICATE)
    assert serves(secret, CERTIFICATE)
    changed = copy.deepcopy(CERTIFICATE)
    changed["spec"]["dnsNames"].append("other.n.svc")
    assert not serves(secret, changed)
    del secret["data"]["tls.key"]
    assert not serves(secret, CERTIFICATE)
