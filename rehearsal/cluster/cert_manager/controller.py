"""What cert-manager's controller and CA injector do, for self-signed issuers.

It looks at everything once a second: a cluster of a rehearsal has a certificate or two.
"""

from __future__ import annotations

import datetime
import logging
import threading
from typing import Final

from slicewright.kubeapi import ApiError, Client, JsonObject, Unreachable
from slicewright.rehearsal.cluster.cert_manager.certificates import secret_of, serves

_log = logging.getLogger(__name__)
_API: Final = "/apis/cert-manager.io/v1"
_API_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
_INJECT: Final = "cert-manager.io/inject-ca-from"
_EVERY_S: Final = 1.0


def run(client: Client, stop: threading.Event) -> None:
    """Until `stop` is set. What fails is said, and done again."""
    while not stop.is_set():
        try:
            step(client)
        except (ApiError, Unreachable) as e:
            _log.warning("%s", e)
        stop.wait(_EVERY_S)


def step(client: Client) -> None:
    """Raises ApiError, Unreachable; what was done before stays."""
    issuers = client.get(f"{_API}/issuers")["items"]
    for issuer in issuers:
        if "selfSigned" in issuer["spec"]:
            _tell_ready(client, "issuers", issuer, "IsReady")
    known = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in issuers}
    made: dict[str, str] = {}
    for certificate in client.get(f"{_API}/certificates")["items"]:
        metadata = certificate["metadata"]
        issuer = (metadata["namespace"], certificate["spec"]["issuerRef"]["name"])
        if issuer in known and "deletionTimestamp" not in metadata:
            secret = _ensure(client, certificate)
            made[f"{metadata['namespace']}/{metadata['name']}"] = secret["data"]["ca.crt"]
            _tell_ready(client, "certificates", certificate, "Ready")
    for service in client.get(_API_SERVICES)["items"]:
        asked = (service["metadata"].get("annotations") or {}).get(_INJECT)
        bundle = made.get(asked or "")
        if bundle is not None and service["spec"].get("caBundle") != bundle:
            name = service["metadata"]["name"]
            client.patch(f"{_API_SERVICES}/{name}", {"spec": {"caBundle": bundle}})
            _log.info("the CA of certificate %s is in APIService %s", asked, name)


def _ensure(client: Client, certificate: JsonObject) -> JsonObject:
    """The certificate's Secret, made where there is none for its names."""
    path = f"/api/v1/namespaces/{certificate['metadata']['namespace']}/secrets"
    name = certificate["spec"]["secretName"]
    try:
        found = client.get(f"{path}/{name}")
    except ApiError as e:
        if e.status != 404:
            raise
        _log.info("certificate %s: a Secret %s is made", certificate["metadata"]["name"], name)
        return client.create(path, secret_of(certificate))
    if serves(found, certificate):
        return found
    _log.info("certificate %s: Secret %s is renewed", certificate["metadata"]["name"], name)
    return client.patch(f"{path}/{name}", secret_of(certificate))


def _tell_ready(client: Client, plural: str, of: JsonObject, reason: str) -> None:
    conditions = (of.get("status") or {}).get("conditions") or ()
    if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
        return
    metadata = of["metadata"]
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": reason,
        "message": "simulated",
        "lastTransitionTime": now,
        "observedGeneration": metadata["generation"],
    }
    client.patch(
        f"{_API}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}/status",
        {"status": {"conditions": [condition]}},
    )
