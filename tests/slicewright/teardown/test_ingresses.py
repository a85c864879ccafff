"""What of an Ingress's load balancer on GKE is proven to be the cluster's, and what is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicewright.teardown.sweep.ingresses import ingress_leftovers
from slicewright.teardown.sweep.leftovers import ORDER, PROOFS, GoogleNetwork, Leftover

API = "https://www.googleapis.com/compute/v1/"
GLOBAL = "projects/acme/global"
UID, OTHER = "0a1b2c3d4e5f6071", "ffffffffffffffff"
HASH = "x4k9w2ab"
ML = "k8s1-0a1b2c3d-ml-vllm-8000-9f8e7d6c"
THEIRS = "k8s1-ffffffff-ml-vllm-8000-9f8e7d6c"


def rule(uid: str, proof: str = "for nodes with the network tag gke-ml-0a1b2c3d-node") -> Leftover:
    return Leftover(kind="firewall rule", id=f"{GLOBAL}/firewalls/k8s-fw-l7--{uid}", proof=proof)


def made(collection: str, name: str, **fields: Any) -> Mapping[str, Any]:
    return {"name": name, "selfLink": f"{API}{GLOBAL}/{collection}/{name}", **fields}


def link(collection: str, name: str) -> str:
    return f"{API}{GLOBAL}/{collection}/{name}"


def network(**found: list[Mapping[str, Any]]) -> GoogleNetwork:
    always = ("firewalls", "forwarding_rules", "target_pools", "backend_services")
    lists = {*always, "endpoint_groups", "addresses", *found}
    return GoogleNetwork(**{name: found.get(name, []) for name in lists})


def names(found: GoogleNetwork, *known: Leftover) -> set[str]:
    return {one.id.rpartition("/")[2] for one in ingress_leftovers(found, known) if one.proof}


def url_map(name: str, default: str, *more: str) -> Mapping[str, Any]:
    rules = [{"paths": ["/"], "service": link("backendServices", one)} for one in more]
    matchers = {"pathMatchers": [{"name": "host", "pathRules": rules}]} if more else {}
    return made("urlMaps", name, defaultService=link("backendServices", default), **matchers)


BACKENDS = [made("backendServices", name) for name in (ML, THEIRS, "shop")]


def test_leftovers_of_ingresses_are_unknown_without_a_firewall_rule_of_the_cluster() -> None:
    found = network(backend_services=BACKENDS, url_maps=[url_map(f"k8s2-um-{HASH}-a-b-c", ML)])
    assert names(found) == set()
    assert names(found, rule(UID, proof="")) == set()


def test_a_name_with_the_uid_of_the_firewall_rule_is_the_clusters() -> None:
    found = network(
        backend_services=[*BACKENDS, made("backendServices", f"k8s-be-30080--{UID}")],
        health_checks=[made("healthChecks", ML), made("healthChecks", f"k8s-be-30080--{OTHER}")],
        certificates=[
            made("sslCertificates", f"k8s-ssl-0123-4567--{UID}"),
            made("sslCertificates", f"web--{UID}"),
        ],
    )
    assert names(found, rule(UID)) == {ML, f"k8s-be-30080--{UID}", f"k8s-ssl-0123-4567--{UID}"}


def test_a_url_map_that_leads_to_others_too_is_not_the_clusters() -> None:
    mine, shared, persons = f"k8s2-um-{HASH}-ml-a-1", "k8s2-um-zzzzzzzz-ml-b-2", "front"
    found = network(
        backend_services=BACKENDS,
        url_maps=[
            url_map(mine, ML, ML),
            url_map(shared, ML, THEIRS),
            url_map(persons, ML),
            made("urlMaps", "k8s2-um-yyyyyyyy-ml-c-3"),
            url_map("k8s2-rm-zzzzzzzz-ml-b-2", ML),
        ],
    )
    assert names(found, rule(UID)) == {ML, mine}


def test_its_url_map_explains_the_hash_in_the_names_of_frontends() -> None:
    def frontend(kind: str, of: str = HASH) -> str:
        return f"k8s2-{kind}-{of}-ml-web-1"

    mine, other = f"k8s2-cr-{HASH}-0123-4567", "k8s2-cr-zzzzzzzz-0123-4567"
    found = network(
        backend_services=BACKENDS,
        url_maps=[url_map(frontend("um"), ML), made("urlMaps", frontend("rm"))],
        target_proxies=[
            made("targetHttpProxies", frontend("tp")),
            made("targetHttpProxies", "front", urlMap=link("urlMaps", frontend("um"))),
        ],
        forwarding_rules=[
            made("forwardingRules", frontend("fr")),
            made("forwardingRules", frontend("fr", "zzzzzzzz")),
        ],
        addresses=[made("addresses", frontend("fr")), made("addresses", "reserved")],
        certificates=[made("sslCertificates", mine), made("sslCertificates", other)],
    )
    own = {frontend(kind) for kind in ("um", "rm", "tp", "fr")}
    assert names(found, rule(UID)) == {ML, mine, *own}
    kinds = {one.kind for one in ingress_leftovers(found, [rule(UID)])}
    assert kinds <= {*ORDER}
    # What is known by another goes before it.
    explained = kinds - {"URL map", "backend service"}
    assert explained <= PROOFS["URL map"]
    assert kinds <= PROOFS["firewall rule"]


def test_a_truncated_name_is_recognised_by_its_target() -> None:
    cut = "k8s-tp-a-namespace-with-a-long-name-and-an-ingress--0a1b2c3d4e0"
    front = cut.replace("-tp-", "-fw-")
    maps = cut.replace("-tp-", "-um-")
    found = network(
        backend_services=BACKENDS,
        url_maps=[url_map(maps, ML)],
        target_proxies=[
            made("targetHttpProxies", cut, urlMap=link("urlMaps", maps)),
            made("targetHttpProxies", "k8s-tp-x--ff0", urlMap=link("urlMaps", "k8s-um-x--ff0")),
        ],
        forwarding_rules=[made("forwardingRules", front, target=link("targetHttpProxies", cut))],
    )
    assert names(found, rule(UID)) == {ML, maps, cut, front}


def test_a_load_balancer_in_a_region_is_known_in_the_same_way() -> None:
    region = f"{API}projects/acme/regions/us-central1"
    backend = f"{region}/backendServices/{ML}"
    found = network(
        backend_services=[{"name": ML, "selfLink": backend}],
        url_maps=[
            {
                "name": f"k8s2-um-{HASH}-ml-a-1",
                "selfLink": f"{region}/urlMaps/k8s2-um-{HASH}-ml-a-1",
                "defaultService": backend,
            }
        ],
    )
    assert names(found, rule(UID)) == {ML, f"k8s2-um-{HASH}-ml-a-1"}
