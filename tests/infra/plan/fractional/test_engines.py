"""Engines for fractions: their limits, their units, and what workloads request of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest

from slicewright.apis.desired_state import DesiredShares
from slicewright.infra import plan, stack_file
from slicewright.infra.plan.fractional.engines import memory_factor

FLEET: dict[str, Any] = {
    "cloud": "byo",
    "cluster": {"name": "c", "context": "c"},
    "fractional": {"provider": "hami"},
    "node_pools": [
        {
            "name": "a",
            "gpu": {"model": "T4", "count": 4},
            "nodes": {"count": 2},
            "sharing": "fractional",
        }
    ],
}
SHARE: dict[str, Any] = {"memory": "2Gi", "compute_percent": 20}
SERVER: dict[str, Any] = {
    "name": "w",
    "kind": "container",
    "pool": "a",
    "image": "nginx:1.27",
    "gpu_share": SHARE,
}
VLLM: dict[str, Any] = SERVER | {
    "kind": "vllm",
    "model": {"name": "org/small", "parameters": "500M"},
    "gpu_share": {"memory": "16Gi", "compute_percent": 40, "cards": 2},
}
EKS: dict[str, Any] = {
    "cloud": "eks",
    "cluster": {"name": "c", "region": "us-east-1"},
    "fractional": {"provider": "hami"},
    "node_pools": [
        {
            "name": "a",
            "machine_type": "g4dn.12xlarge",
            "nodes": {"count": 2},
            "sharing": "fractional",
        }
    ],
}


def written(provider: str, *workloads: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    fleet = copy.deepcopy(FLEET)
    fleet["fractional"] = {"provider": provider, **settings}
    return {**fleet, "workloads": list(workloads)}


def planned(raw: Mapping[str, Any]) -> plan.FleetPlan:
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def refusals(raw: Mapping[str, Any]) -> dict[str, str]:
    """Path -> reason and remedy of each refusal."""
    with pytest.raises(stack_file.SpecError) as refused:
        planned(raw)
    return {".".join(map(str, p.path)): f"{p.reason}; {p.instead}" for p in refused.value.problems}


@pytest.mark.parametrize(
    ("node_mib", "factor"), [(15360, 1), (60_000, 1), (60_001, 2), (81_920, 2), (8 * 81_920, 11)]
)
def test_the_unit_of_memory_keeps_the_kubelets_list_short(node_mib: int, factor: int) -> None:
    assert memory_factor(node_mib) == factor
    assert node_mib // factor <= 60_000


def test_volcano_requests_are_per_card_and_in_units_of_the_largest_node() -> None:
    raw = written("volcano", {"name": "w", "gpu_share": {**SHARE, "memory": "6Gi", "cards": 2}})
    raw["node_pools"].append(
        {**raw["node_pools"][0], "name": "b", "gpu": {"model": "H100-80", "count": 8}}
    )
    fleet = planned(raw)
    assert fleet.engine is not None
    assert fleet.engine.memory_factor == 11
    (share,) = fleet.workloads
    assert share.requests == {
        "volcano.sh/vgpu-number": 2,
        "volcano.sh/vgpu-memory": 280,  # 3072 MiB in units of 11, rounded up
        "volcano.sh/vgpu-cores": 10,
    }
    assert share.memory_mib_per_card == 280 * 11
    offers = [pool.offer.resources["volcano.sh/vgpu-memory"] for pool in fleet.pools]
    assert offers == [4 * (15360 // 11), 8 * (81559 // 11)]


def test_hami_needs_no_unit() -> None:
    raw = written("hami", {"name": "w", "gpu_share": SHARE})
    raw["node_pools"][0]["gpu"] = {"model": "H100-80", "count": 8}
    fleet = planned(raw)
    assert fleet.engine is not None
    assert fleet.engine.memory_factor == 1


def test_both_engines_take_the_same_keys() -> None:
    """S3-18, S3-19"""
    share = {"name": "w", "gpu_share": {"memory": "18Gi", "compute_percent": 240, "cards": 3}}
    requests = {
        provider: dict(planned(written(provider, share)).workloads[0].requests)
        for provider in ("hami", "volcano")
    }
    assert requests["hami"] == {
        "nvidia.com/gpu": 3,
        "nvidia.com/gpumem": 6144,
        "nvidia.com/gpucores": 80,
    }
    assert requests["volcano"] == {
        "volcano.sh/vgpu-number": 3,
        "volcano.sh/vgpu-memory": 3072,  # units of 2 MiB: four T4 have 61440
        "volcano.sh/vgpu-cores": 80,
    }


def test_a_share_without_amounts_is_whole_cards() -> None:
    """S3-11"""
    requests = {
        provider: dict(
            planned(written(provider, {"name": "w", "gpu_share": {"cards": 2}}))
            .workloads[0]
            .requests
        )
        for provider in ("hami", "volcano", "vke")
    }
    assert requests == {
        "hami": {
            "nvidia.com/gpu": 2,
            "nvidia.com/gpumem-percentage": 100,
            "nvidia.com/gpucores": 100,
        },
        "volcano": {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-cores": 100},
        "vke": {"vke.volcengine.com/mgpu-core": 200},
    }


def test_priorities_and_policies_of_a_pod_are_hamis() -> None:
    share = {**SHARE, "priority": "low", "node_policy": "spread", "gpu_policy": "binpack"}
    (request,) = planned(written("hami", {"name": "w", "gpu_share": share})).workloads
    assert request.requests["nvidia.com/priority"] == 1
    assert request.annotations == {
        "hami.io/node-scheduler-policy": "spread",
        "hami.io/gpu-scheduler-policy": "binpack",
    }
    for provider in ("volcano", "vke"):
        assert set(refusals(written(provider, {"name": "w", "gpu_share": share}))) == {
            f"workloads.0.gpu_share.{key}" for key in ("priority", "node_policy", "gpu_policy")
        }


@pytest.mark.parametrize(
    ("raw", "place", "reason"),
    [
        (
            written("volcano", {"name": "w", "gpu_share": SHARE, "containers": 2}),
            "workloads.0.containers",
            "counts several containers of a pod on one card once",
        ),
        (
            written("volcano", oversubscription={"compute_percent": 200}),
            "fractional.oversubscription.compute_percent",
            "never allocates more than 100 % of a card",
        ),
        (
            written("volcano", image_pull_secrets=["a", "b"]),
            "fractional.image_pull_secrets",
            "takes one pull secret",
        ),
        (written("hami", plugin_version="1.12.0"), "fractional.plugin_version", "HAMi's own chart"),
        (written("vke", registry="r.example.com"), "fractional.registry", "nothing is installed"),
        (written("vke", SERVER), "workloads.0.gpu_share", "VKE is planned only"),
        (
            written("hami", {"name": "w", "gpu_share": {"compute_percent": 240}}),
            "workloads.0.gpu_share.memory",
            "a share is of memory and of compute",
        ),
        (
            written("hami", {"name": "w", "gpu_share": {"memory": "2Gi", "compute_percent": 240}}),
            "workloads.0.gpu_share.compute_percent",
            "a card has 100",
        ),
        (written("hami", SERVER | {"resource": "gpu"}), "workloads.0.resource", "has one resource"),
        (
            written("hami", SERVER | {"gpus": 2}),
            "workloads.0.gpus",
            "2, but gpu_share has 1 card; write 1",
        ),
        (
            written("hami", VLLM),
            "workloads.0.tensor_parallel",
            "1, but gpu_share has 2 cards; write 2",
        ),
        (
            written("hami", {k: v for k, v in SERVER.items() if k != "gpu_share"}),
            "workloads.0.pool",
            "add gpu_share, or write the name of another pool",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_settings_that_an_engine_does_not_support_are_refused(
    raw: dict[str, Any], place: str, reason: str
) -> None:
    said = refusals(raw)
    assert set(said) == {place}
    assert reason in said[place]


@pytest.mark.parametrize("provider", ["hami", "volcano"])
def test_a_node_has_one_device_plugin(provider: str) -> None:
    raw = written(provider)
    raw["node_pools"].append({**raw["node_pools"][0], "name": "b", "sharing": "none"})
    assert "the nodes of b would have none" in refusals(raw)["fractional"]
    gke = {
        "cloud": "gke",
        "cluster": {"name": "c", "location": "us-central1"},
        "fractional": {"provider": provider},
        "gpu_operator": {"toolkit": {"enabled": True}},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "a2-highgpu-2g",
                "zones": ["us-central1-a"],
                "nodes": {"count": 1},
                "image_type": "UBUNTU_CONTAINERD",
                "sharing": "fractional",
                "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
            }
        ],
    }
    assert "cannot be combined" in refusals(gke)["node_pools.0.sharing"]
    del gke["gpu_operator"], gke["node_pools"][0]["partition"]
    (pool,) = planned(gke).pools
    assert pool.labels["gke-no-default-nvidia-gpu-device-plugin"] == "true"


def test_pools_that_grow_by_themselves_are_refused() -> None:
    raw = copy.deepcopy(EKS)
    raw["node_pools"][0]["nodes"] = {"min": 1, "max": 3}
    assert "autoscalers do not see what is left" in refusals(raw)["node_pools.0.nodes"]
    raw["node_pools"][0]["nodes"] = {"count": 3}
    assert planned(raw).placement is not None


def test_replicas_without_a_place_stay_pending_and_are_not_awaited() -> None:
    raw = written("hami", {"name": "first", "gpu_share": {"cards": 4}}, SERVER | {"replicas": 25})
    fleet = planned(raw)
    (server,) = fleet.deployments
    assert (server.runs, server.pending, server.awaited) == (20, 5, False)
    assert any("room for 20 of its 25 replicas" in note for note in plan.notes(fleet))
    fits = planned(written("hami", SERVER | {"replicas": 40}))
    assert (fits.deployments[0].runs, fits.deployments[0].awaited) == (40, True)


def test_pods_of_others_without_a_place_are_noted() -> None:
    fleet = planned(written("volcano", {"name": "w", "gpu_share": {"cards": 4}, "replicas": 3}))
    assert any("room for 2 of its 3 pods" in note for note in plan.notes(fleet))


def test_memory_of_a_server_is_compared_with_its_share() -> None:
    """A share's memory is all that the server sees."""
    large = VLLM | {
        "model": {"name": "org/large", "parameters": "7B"},
        "tensor_parallel": 2,
        "gpu_share": {"memory": "16Gi", "compute_percent": 40, "cards": 2},
    }
    assert refusals(written("hami", large)) == {
        "workloads.0.gpu_share.memory": "a replica needs 8212 MiB of each card, and 90 % of its "
        "share is 7372 MiB; write 18250Mi or more"
    }
    large["gpu_share"] = {"memory": "18250Mi", "compute_percent": 40, "cards": 2}
    assert planned(written("hami", large)).deployments
    stated = SERVER | {"gpu_memory": "3Gi"}
    assert refusals(written("volcano", stated)) == {
        "workloads.0.gpu_share.memory": "a replica needs 3072 MiB of each card, and its share is "
        "2048 MiB; write 3072Mi or more"
    }


def test_oversubscribed_memory_is_only_given_when_it_is_declared() -> None:
    share = {"name": "w", "gpu_share": {"memory": "20Gi", "compute_percent": 50}}
    assert (
        "the largest card has 15360 MiB"
        in refusals(written("hami", share))["workloads.0.gpu_share.memory"]
    )
    fleet = planned(written("hami", share, oversubscription={"memory_percent": 150}))
    assert fleet.placement is not None
    assert fleet.placement.nodes[0].cards[0].card.memory_mib == 23040


def test_up_refuses_vke_with_its_reason() -> None:
    assert plan.unbuildable(planned(written("hami"))) == ()
    assert plan.unbuildable(planned(written("volcano"))) == ()
    (problem,) = plan.unbuildable(planned(written("vke")))
    assert "never merged into Volcano" in problem.reason
    assert planned(written("vke")).placement is None


def test_vke_gets_the_number_of_cards_of_each_container() -> None:
    share = {"memory": "2Gi", "compute_percent": 20, "cards": 2}
    (request,) = planned(
        written("vke", {"name": "w", "gpu_share": share, "containers": 3})
    ).workloads
    assert request.annotations["vke.volcengine.com/container-multiple-gpu"] == "2,2,2"


@pytest.mark.parametrize("provider", ["hami", "volcano"])
def test_card_of_unknown_memory_cannot_be_shared_by_fractions(provider: str) -> None:
    raw = copy.deepcopy(FLEET) | {"fractional": {"provider": provider}}
    raw["node_pools"][0]["gpu"] = {"product": "NVIDIA RTX 123456", "count": 2}
    assert refusals(raw)["node_pools.0.sharing"] == (
        "the memory of NVIDIA RTX 123456 is unknown, so its fractions cannot be counted; "
        "share the GPUs by time-slicing, or use a GPU of the catalog"
    )


def test_the_agent_compares_memory_with_nvml_and_not_with_the_catalog() -> None:
    """Drivers differ in the memory of one model, and a node would never match."""
    (pool,) = planned(written("volcano", oversubscription={"memory_percent": 150})).pools
    assert pool.offer.resources["volcano.sh/vgpu-memory"] == 4 * (15360 * 150 // 100 // 2)
    assert pool.offer.expected.resources == {
        "volcano.sh/vgpu-number": 40,
        "volcano.sh/vgpu-cores": 400,
    }
    assert pool.offer.expected.shares == DesiredShares(
        engine="volcano", slots=10, memory_percent=150, memory_unit_mib=2
    )
    assert planned(written("vke")).pools[0].offer.expected.shares is None


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"fractional": {"provider": "kai", "plugin_version": "1.12.0"}},
        {"fractional": {"provider": "kai", "compute_policy": "fixed-share"}},
        {"fractional": {"provider": "kai", "registry": "r.example.com"}},
        {"fractional": {}},
        {"cloud": "gke"},
        {"pool": {"nodes": {"min": 1, "max": 3}}},
        {"more": {"sharing": "none"}},
        {
            "workloads": [
                {
                    "name": "w",
                    "gpu_share": {**SHARE, "priority": "high", "node_policy": "spread"},
                    "containers": 2,
                }
            ]
        },
    ],
    ids=str,
)
def test_nothing_follows_from_a_provider_that_is_wrong(change: Mapping[str, Any]) -> None:
    """The plan goes on with HAMi, so that other problems are seen, but says nothing of it."""
    raw = written("kai")
    if change.get("cloud") == "gke":
        raw = {
            "cloud": "gke",
            "cluster": {"name": "c", "location": "us-central1"},
            "fractional": {"provider": "kai"},
            "node_pools": [
                {
                    "name": "a",
                    "machine_type": "a2-highgpu-2g",
                    "zones": ["us-central1-a"],
                    "nodes": {"count": 1},
                    "sharing": "fractional",
                    "image_type": "UBUNTU_CONTAINERD",
                }
            ],
        }
    raw |= {key: change[key] for key in ("fractional", "workloads") if key in change}
    raw["node_pools"][0] |= change.get("pool", {})
    if "more" in change:
        raw["node_pools"].append({**raw["node_pools"][0], "name": "b", **change["more"]})
    assert set(refusals(raw)) == {"fractional.provider"}


@pytest.mark.parametrize(
    ("raw", "place", "reason"),
    [
        (written("hami", existing=True), "fractional.existing", "only Volcano's scheduler"),
        (
            copy.deepcopy(EKS) | {"fractional": {"provider": "volcano", "existing": True}},
            "fractional.existing",
            "has no Volcano yet; write false, or cloud: byo",
        ),
        (
            written("volcano", existing=True, chart_version="1.15.1"),
            "fractional.chart_version",
            "has no effect on a Volcano that exists",
        ),
    ],
)
def test_an_existing_engine_is_volcano_in_an_existing_cluster(
    raw: dict[str, Any], place: str, reason: str
) -> None:
    said = refusals(raw)
    assert set(said) == {place}
    assert reason in said[place]


@pytest.mark.parametrize("provider", ["hami", "volcano"])
def test_the_rollout_makes_partitioned_gpus_whole(provider: str) -> None:
    """Without a layout, nobody would turn MIG off, and the pool would never be verified."""
    raw = written(provider)
    raw["node_pools"][0]["gpu"] = {"model": "A100-40", "count": 8}
    (pool,) = planned(raw).pools
    assert pool.offer.mig_config == "all-disabled"
    assert pool.offer.expected.partitioner == "mig-manager"
    assert pool.offer.expected.shares is not None
    (t4,) = planned(written(provider)).pools
    assert t4.offer.mig_config is None, "it has no MIG"
