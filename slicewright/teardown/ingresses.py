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

from slicewright.teardown.leftovers import GoogleNetwork, Leftover, Resource, path_of

_FIREWALL: Final = re.compile(r"k8s-fw-l7--([0-9a-f]{16})")
_FRONTEND: Final = re.compile(r"k8s2-[a-z]{2}-([0-9a-z]{8})-.+")
"""Names of the second scheme, with the hash of a cluster's UID."""
_MADE_BY_GKE: Final = re.compile(r"k8s2?-.+")
_REDIRECT: Final = re.compile(r"k8s2?-rm-.+")
_BACKEND: Final = re.compile(r"/(backendServices|backendBuckets)/")


def of_ingresses(found: GoogleNetwork, known: Iterable[Leftover]) -> list[Leftover]:
    """known: the cluster's other leftovers, with its firewall rules.

    If a rule has only the cluster's mark, then so do the resources that the rule identifies.
    """
    rules = list(known)
    proven = [replace(one, mark=one.proof) for one in _hanging_on(found, rules)]
    known_ids = {one.id for one in proven}
    by_mark = _hanging_on(found, [replace(r, proof=r.mark) for r in rules if not r.proof])
    marked = [replace(o, mark=o.proof, proof="") for o in by_mark if o.id not in known_ids]
    return [*proven, *marked]


def _hanging_on(found: GoogleNetwork, known: Iterable[Leftover]) -> list[Leftover]:
    """Returns the resources that these firewall rules prove.

    The search goes from the last resource to delete to the first, as each proves the next. A
    resource that a person created and pointed at the cluster's (a proxy, a certificate) lacks GKE's
    name, and stays.
    """
    by_uid = {
        match[1]: f"named with the cluster's UID {match[1]}, as firewall rule {match[0]}, which is "
        f"{rule.proof}"
        for rule in known
        if rule.kind == "firewall rule"
        and rule.proof
        and (match := _FIREWALL.fullmatch(rule.id.rpartition("/")[2]))
    }
    left = [
        *_named("backend service", found.backend_services, by_uid),
        *_named("health check", found.health_checks, by_uid),
    ]
    if not by_uid:
        return left
    backends = frozenset(one.id for one in left if one.kind == "backend service")
    maps = [one for one in found.url_maps if not _REDIRECT.fullmatch(one["name"])]
    redirects = [one for one in found.url_maps if _REDIRECT.fullmatch(one["name"])]
    proven = {one.id: one for one in _named("URL map", maps, by_uid)}
    by_hash: dict[str, str] = {}
    for one in maps:
        leads_to = frozenset(_backends(one))
        if _MADE_BY_GKE.fullmatch(one["name"]) and leads_to and leads_to <= backends:
            proof = "leads to backend services of the cluster only"
            proven[path_of(one)] = Leftover(kind="URL map", id=path_of(one), proof=proof)
            if match := _FRONTEND.fullmatch(one["name"]):
                by_hash[match[1]] = f"named with {match[1]}, as URL map {match[0]}, which {proof}"
    left += proven.values()
    left += _named("redirect map", redirects, by_uid, by_hash)
    left += _named("certificate", found.certificates, by_uid, by_hash)
    for kind, resources, field in (
        ("target proxy", found.target_proxies, "urlMap"),
        ("forwarding rule", found.forwarding_rules, "target"),
    ):
        named = _named(kind, resources, by_uid, by_hash)
        left += named
        # A long name of the first scheme is truncated, within the UID.
        left += _leading_to(kind, resources, field, {one.id for one in left})
    left += _named("address", found.addresses, by_uid, by_hash)
    return left


def _named(
    kind: str,
    resources: Sequence[Resource],
    by_uid: Mapping[str, str],
    by_hash: Mapping[str, str] | None = None,
) -> list[Leftover]:
    """by_uid, by_hash: parts of names, each with the proof that it gives."""
    left = []
    for one in resources:
        name = str(one["name"])
        frontend = _FRONTEND.fullmatch(name)
        proof = (by_hash or {}).get(frontend[1], "") if frontend else ""
        for uid, shown in by_uid.items():
            whole = name.startswith("k8s-") and name.endswith(f"--{uid}")
            if whole or name.startswith(f"k8s1-{uid[:8]}-"):
                proof = shown
        if proof:
            left.append(Leftover(kind=kind, id=path_of(one), proof=proof))
    return left


def _leading_to(
    kind: str, resources: Sequence[Resource], field: str, known: set[str]
) -> list[Leftover]:
    return [
        Leftover(kind=kind, id=path_of(one), proof=f"leads to {to}, which is the cluster's")
        for one in resources
        if (to := path_of({"selfLink": one.get(field, "")})) in known
        and path_of(one) not in known
        and _MADE_BY_GKE.fullmatch(str(one["name"]))
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
