"""The leftovers of a GKE Ingress in Compute Engine, and the proofs that they are the cluster's.

The load balancer of an Ingress names the cluster in two ways. Backend services, health checks and
older names end in, or begin with, the UID that GKE's controller gave the cluster. Newer frontends
have a hash of another UID, the one of namespace kube-system. Once the cluster is gone, only the
leftovers still reveal both: the firewall rule of all Ingresses has the first in its name and the
cluster's network tag, and a URL map that leads only to the cluster's backend services has the
second.

A description names an Ingress and its namespace, but no cluster, and proves nothing.

Source: kubernetes/ingress-gce, pkg/utils/namer (namer.go, frontendnamer.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from slicewright.teardown.sweep.leftovers import GoogleNetwork, Leftover, Resource, path_of

_FIREWALL: Final = re.compile(r"k8s-fw-l7--([0-9a-f]{16})")
_FRONTEND: Final = re.compile(r"k8s2-[a-z]{2}-([0-9a-z]{8})-.+")
"""Names of the second scheme, with the hash of a cluster's UID."""
_MADE_BY_GKE: Final = re.compile(r"k8s2?-.+")
_REDIRECT: Final = re.compile(r"k8s2?-rm-.+")
_BACKEND: Final = re.compile(r"/(backendServices|backendBuckets)/")


def ingress_leftovers(network: GoogleNetwork, leftovers: Iterable[Leftover]) -> list[Leftover]:
    """leftovers: the cluster's other leftovers, with its firewall rules.

    If a rule has only the cluster's mark, then so do the resources that the rule identifies.
    """
    rules = list(leftovers)
    proven = [replace(leftover, mark=leftover.proof) for leftover in _hanging_on(network, rules)]
    known_ids = {leftover.id for leftover in proven}
    by_mark = _hanging_on(network, [replace(r, proof=r.mark) for r in rules if not r.proof])
    marked = [replace(o, mark=o.proof, proof="") for o in by_mark if o.id not in known_ids]
    return [*proven, *marked]


def _hanging_on(network: GoogleNetwork, rules: Iterable[Leftover]) -> list[Leftover]:
    """Returns the resources that these firewall rules prove.

    The search goes from the last resource to delete to the first, as each proves the next. A
    resource that a person created and pointed at the cluster's (a proxy, a certificate) lacks GKE's
    name, and stays.
    """
    by_uid = _uid_proofs(rules)
    leftovers = [
        *_named("backend service", network.backend_services, by_uid),
        *_named("health check", network.health_checks, by_uid),
    ]
    if not by_uid:
        return leftovers
    backends = frozenset(backend.id for backend in leftovers if backend.kind == "backend service")
    maps, by_hash = _url_maps(network, by_uid, backends)
    redirects = [url_map for url_map in network.url_maps if _REDIRECT.fullmatch(url_map["name"])]
    leftovers += maps
    leftovers += _named("redirect map", redirects, by_uid, by_hash)
    leftovers += _named("certificate", network.certificates, by_uid, by_hash)
    for kind, resources, field in (
        ("target proxy", network.target_proxies, "urlMap"),
        ("forwarding rule", network.forwarding_rules, "target"),
    ):
        leftovers += _named(kind, resources, by_uid, by_hash)
        # A long name of the first scheme is truncated, within the UID.
        known_ids = {leftover.id for leftover in leftovers}
        leftovers += _leading_to(kind, resources, field, known_ids)
    leftovers += _named("address", network.addresses, by_uid, by_hash)
    return leftovers


def _uid_proofs(rules: Iterable[Leftover]) -> dict[str, str]:
    """UID in the name of a proven firewall rule -> the proof that it gives to others."""
    return {
        match[1]: f"named with the cluster's UID {match[1]}, as firewall rule {match[0]}, which is "
        f"{rule.proof}"
        for rule in rules
        if rule.kind == "firewall rule"
        and rule.proof
        and (match := _FIREWALL.fullmatch(rule.id.rpartition("/")[2]))
    }


def _url_maps(
    network: GoogleNetwork, by_uid: Mapping[str, str], backends: frozenset[str]
) -> tuple[list[Leftover], dict[str, str]]:
    """Returns the cluster's URL maps, and the proofs that the hashes in their names give.

    backends: IDs of the cluster's backend services.
    """
    maps = [url_map for url_map in network.url_maps if not _REDIRECT.fullmatch(url_map["name"])]
    proven = {leftover.id: leftover for leftover in _named("URL map", maps, by_uid)}
    by_hash: dict[str, str] = {}
    for url_map in maps:
        leads_to = frozenset(_backends(url_map))
        if _MADE_BY_GKE.fullmatch(url_map["name"]) and leads_to and leads_to <= backends:
            proof = "leads to backend services of the cluster only"
            identity = path_of(url_map)
            proven[identity] = Leftover(kind="URL map", id=identity, proof=proof)
            if match := _FRONTEND.fullmatch(url_map["name"]):
                by_hash[match[1]] = f"named with {match[1]}, as URL map {match[0]}, which {proof}"
    return list(proven.values()), by_hash


def _named(
    kind: str,
    resources: Sequence[Resource],
    by_uid: Mapping[str, str],
    by_hash: Mapping[str, str] | None = None,
) -> list[Leftover]:
    """by_uid, by_hash: parts of names, each with the proof that it gives."""
    leftovers = []
    for resource in resources:
        name = str(resource["name"])
        frontend = _FRONTEND.fullmatch(name)
        proof = (by_hash or {}).get(frontend[1], "") if frontend else ""
        for uid, uid_proof in by_uid.items():
            whole = name.startswith("k8s-") and name.endswith(f"--{uid}")
            if whole or name.startswith(f"k8s1-{uid[:8]}-"):
                proof = uid_proof
        if proof:
            leftovers.append(Leftover(kind=kind, id=path_of(resource), proof=proof))
    return leftovers


def _leading_to(
    kind: str, resources: Sequence[Resource], field: str, known_ids: set[str]
) -> list[Leftover]:
    return [
        Leftover(
            kind=kind, id=path_of(resource), proof=f"leads to {to}, which belongs to the cluster"
        )
        for resource in resources
        if (to := path_of({"selfLink": resource.get(field, "")})) in known_ids
        and path_of(resource) not in known_ids
        and _MADE_BY_GKE.fullmatch(str(resource["name"]))
    ]


def _backends(value: Any) -> Iterator[str]:
    """The backends of a URL map, anywhere in its rules."""
    match value:
        case str() if _BACKEND.search(value):
            yield path_of({"selfLink": value})
        case Mapping():
            for inner in value.values():
                yield from _backends(inner)
        case list():
            for inner in value:
                yield from _backends(inner)
        case _:
            pass
