"""Drivers that are too old for a pool's partitions, and the images of EKS."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import catalog, geometry, manifests, plan, stack_file
from slicewright.infra.catalog import Accelerator, Gpu, Machine, driver_order
from slicewright.infra.plan.findings import collect
from slicewright.infra.plan.gpu_operator import drivers
from tests.recorder import recorded

CATALOG = catalog.load()
MIG_GPUS = [gpu for gpu in CATALOG.gpus.values() if gpu.family]
EKS_MACHINES = [m for m in CATALOG.machines.values() if m.cloud == "eks" and m.gpu]


def planned(raw: dict[str, Any]) -> plan.FleetPlan:
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def refusals(raw: dict[str, Any]) -> list[stack_file.Problem]:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(raw)
    return list(refused.value.problems)


def byo(gpu: Gpu, layout: dict[str, int], **operator: Any) -> dict[str, Any]:
    pool: dict[str, Any] = {
        "name": "a",
        "gpu": {"model": gpu.name, "count": 2},
        "nodes": {"count": 1},
    }
    pool["partition"] = {"mode": "operator", "layout": layout}
    return {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "node_pools": [pool],
        "gpu_operator": operator,
    }


def eks(machine: str, **pool: Any) -> dict[str, Any]:
    made = {"name": "a", "machine_type": machine, "nodes": {"count": 1}, **pool}
    return {"cloud": "eks", "cluster": {"name": "c", "region": "us-east-1"}, "node_pools": [made]}


def older(version: str) -> str:
    """The last minor release before, or the end of the branch before."""
    major, minor, *_ = version.split(".")
    return f"{major}.{int(minor) - 1}.99" if int(minor) else f"{int(major) - 1}.999.99"


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_each_gpu_accepts_its_minimum_driver_and_refuses_the_one_before(gpu: Gpu) -> None:
    layout = dict(gpu.balanced())
    oldest = geometry.minimum_driver(gpu, layout)
    (problem,) = refusals(byo(gpu, layout, driver={"enabled": True, "version": older(oldest)}))
    assert problem.path == ("gpu_operator", "driver", "version")
    of_a_system = {"enabled": True, "version": f"{older(oldest)}-ubuntu22.04"}
    assert refusals(byo(gpu, layout, driver=of_a_system)) == [problem]
    assert older(oldest) in problem.reason
    assert oldest in problem.instead
    assert problem.source == gpu.source
    (pool,) = planned(byo(gpu, layout, driver={"enabled": True, "version": oldest})).pools
    assert json.loads(pool.offer.desired)["minimum_driver"] == oldest


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_every_profile_has_a_driver_that_is_old_enough_to_be_refused(gpu: Gpu) -> None:
    for name in gpu.profiles:
        oldest = geometry.minimum_driver(gpu, [name])
        (problem,) = refusals(
            byo(gpu, {name: 1}, driver={"enabled": True, "version": older(oldest)})
        )
        assert oldest in problem.instead


def test_the_driver_of_an_old_chart_is_checked() -> None:
    """GB300 and B300 want 580.82.07, which the oldest chart of the catalog just has; none is
    older.
    """
    oldest = min(CATALOG.charts.values(), key=lambda chart: driver_order(chart.driver))
    for gpu in MIG_GPUS:
        fleet = planned(
            byo(gpu, dict(gpu.balanced()), driver={"enabled": True}, chart_version=oldest.version)
        )
        driver = drivers.driver_of(fleet.pools[0], fleet)
        assert (driver.version, driver.exact, driver.key) == (
            oldest.driver,
            True,
            ("gpu_operator", "chart_version"),
        )


def test_the_driver_of_an_unknown_chart_or_of_the_nodes_is_not_checked() -> None:
    gpu = CATALOG.gpus["B300"]
    for operator in ({"driver": {"enabled": True}, "chart_version": "v27.1.0"}, {}):
        fleet = planned(byo(gpu, dict(gpu.balanced()), **operator))
        assert drivers.driver_of(fleet.pools[0], fleet).version is None


@pytest.mark.parametrize("machine", EKS_MACHINES, ids=lambda m: m.name)
def test_the_newest_eks_image_supports_mig_on_every_gpu_of_eks(machine: Machine) -> None:
    assert machine.gpu is not None
    newest = machine.images[0]
    assert newest.driver is not None
    for name in machine.gpu.profiles:
        assert driver_order(newest.driver) >= driver_order(
            geometry.minimum_driver(machine.gpu, [name])
        )


@pytest.mark.parametrize(
    ("release", "version", "exact"),
    [
        (None, "580.159.03", False),
        ("1.34.0-20260714", "580.159.03", True),
        ("1.35.1-20261001", "580.159.03", False),
        ("1.33.0-20250101", None, False),
    ],
)
def test_images_from_the_known_release_on_have_its_driver_or_newer(
    release: str | None, version: str | None, exact: bool
) -> None:
    fleet = planned(eks("p4d.24xlarge", **({"release_version": release} if release else {})))
    driver = drivers.driver_of(fleet.pools[0], fleet)
    assert (driver.version, driver.exact) == (version, exact)


def test_an_image_whose_driver_is_too_old_is_refused() -> None:
    """None of EKS's is, by the catalog: the check itself, with an image of an older day."""
    image = catalog.Image(
        name="AL2023_x86_64_NVIDIA",
        architecture="amd64",
        release="20250101",
        driver="570.86.15",
        source="x",
    )
    fleet = planned(
        eks("p6-b300.48xlarge", partition={"mode": "operator", "config": "all-1g.34gb"})
    )
    (pool,) = fleet.pools
    driver = drivers.image_driver(image, "1.32.0-20250101", ("node_pools", 0))
    _, (finding,) = collect(drivers.check_driver(driver, "a", pool.gpu, pool.offer))
    problem = finding.problem
    assert problem.path == ("node_pools", 0, "release_version")
    assert "580.82.07" in problem.instead


@pytest.mark.parametrize(
    ("layout", "version", "said"),
    [
        ({"1g.24gb": 4}, "575.57.08", "does not support MIG on it"),
        ({"1g.24gb": 4}, "575.51.03", None),
    ],
)
def test_a_driver_with_a_known_fault_is_refused_though_it_is_new_enough(
    layout: dict[str, int], version: str, said: str | None
) -> None:
    raw = byo(CATALOG.gpus["RTX-PRO-6000"], layout, driver={"enabled": True, "version": version})
    if said is None:
        assert planned(raw).pools
    else:
        assert [said in problem.reason for problem in refusals(raw)] == [True]


@pytest.mark.parametrize(("second", "refused"), [({}, True), ({"1g.10gb": 7}, False)])
def test_some_drivers_are_refused_only_for_whole_gpus_beside_partitioned_ones(
    second: dict[str, int], refused: bool
) -> None:
    raw = byo(CATALOG.gpus["H100-80"], {}, driver={"enabled": True, "version": "570.133.20"})
    raw["node_pools"][0]["partition"] = {
        "mode": "operator",
        "gpus": [{"index": [0], "layout": {"1g.10gb": 7}}, {"index": [1], "layout": second}],
    }
    if refused:
        (problem,) = refusals(raw)
        assert "leaves pods pending" in problem.reason
        assert "gpu-operator #1361" in problem.source
    else:
        assert planned(raw).pools


@pytest.mark.parametrize("profile", sorted(CATALOG.gpus["RTX-PRO-6000"].profiles))
@pytest.mark.parametrize(
    ("operator", "key", "instead"),
    [
        ({"chart_version": "v26.3.3"}, "chart_version", "v26.7.0"),
        ({"chart_version": "26.3.9"}, "chart_version", "v26.7.0"),
        ({"device_plugin": {"version": "v0.19.3"}}, "version", "v0.20.0"),
        ({"chart_version": "v26.7.0"}, None, ""),
        ({"chart_version": "v26.10.0"}, None, ""),
        ({"chart_version": "v26.3.3", "device_plugin": {"version": "v0.20.0"}}, None, ""),
        ({"chart_version": "v26.3.3", "device_plugin": {"version": "ours"}}, None, ""),
        ({"chart_version": "v26.3.3", "mig_strategy": "single"}, None, ""),
    ],
)
def test_a_device_plugin_too_old_for_a_profiles_ending_is_refused(
    operator: dict[str, Any], key: str | None, instead: str, profile: str
) -> None:
    """It would be cut and never advertised as a resource of its own; with `single` no
    partition is.
    """
    raw = eks("g7e.2xlarge", partition={"mode": "operator", "layout": {profile: 1}}) | {
        "gpu_operator": operator
    }
    if key is None or not profile.endswith(("-me", "+me.all", "+gfx")):
        assert planned(raw).pools
    else:
        (problem,) = refusals(raw)
        assert problem.path[0] == "gpu_operator"
        assert problem.path[-1] == key
        assert f"advertises {profile} of pool a" in problem.reason
        assert problem.instead == f"choose {instead} or newer"
        assert "#1807" in problem.source


def test_faults_of_nvidias_plugin_do_not_concern_gkes_plugin() -> None:
    pool = {
        "name": "a",
        "machine_type": "g4-standard-48",
        "nodes": {"count": 1},
        "disk": {"type": "hyperdisk-balanced"},
    }
    cuts: dict[str, dict[str, Any]] = {
        "native": {"mode": "native", "profile": "1g.24gb-me"},
        "operator": {"mode": "operator", "layout": {"1g.24gb": 4}},
    }
    raw = {
        "cloud": "gke",
        "cluster": {"name": "c", "location": "us-central1-a"},
        "node_pools": [{**pool, "name": name, "partition": cut} for name, cut in cuts.items()],
        "gpu_operator": {"chart_version": "v26.3.3"},
    }
    assert len(planned(raw).pools) == 2
    raw["node_pools"][1]["partition"]["layout"] = {"1g.24gb-me": 4}
    (problem,) = refusals(raw)
    assert "of pool operator" in problem.reason


@pytest.mark.parametrize(
    "accelerator", [a for a in CATALOG.accelerators.values() if a.sizes], ids=lambda a: a.name
)
def test_gkes_driver_is_unknown_and_the_agents_get_the_minimum(
    accelerator: Accelerator,
) -> None:
    machine = next(m for m in CATALOG.machines.values() if m.accelerator == accelerator.name)
    pool: dict[str, Any] = {
        "name": "a",
        "machine_type": machine.name,
        "nodes": {"count": 1},
        "capacity": "spot",
    }
    if machine.capacity is None:
        pool["capacity"] = "on-demand"
    if machine.boot_disks:
        pool["disk"] = {"type": machine.boot_disks[-1]}
    for size in accelerator.sizes:
        partition = {"mode": "native", "profile": size}
        raw = {
            "cloud": "gke",
            "cluster": {"name": "c", "location": "us-central1-a"},
            "node_pools": [{**pool, "partition": partition}],
        }
        fleet = planned(raw)
        assert drivers.driver_of(fleet.pools[0], fleet).version is None
        assert json.loads(fleet.pools[0].offer.desired)[
            "minimum_driver"
        ] == geometry.minimum_driver(accelerator.gpu, [size])


def test_the_image_follows_the_machines_processors() -> None:
    block = {"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"}
    for machine, image in (
        ("p5.48xlarge", "AL2023_x86_64_NVIDIA"),
        ("p6e-gb200.36xlarge", "AL2023_ARM_64_NVIDIA"),
    ):
        for said in ({}, {"ami_type": image}):
            (pool,) = planned(eks(machine, capacity=block, **said)).pools
            assert isinstance(pool.settings, plan.EksSettings)
            assert pool.settings.ami_type == image


def test_an_image_for_other_processors_is_refused() -> None:
    block = {"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"}
    (problem,) = refusals(
        eks("p6e-gb200.36xlarge", capacity=block, ami_type="AL2023_x86_64_NVIDIA")
    )
    assert problem.path == ("node_pools", 0, "ami_type")
    assert (
        "has arm64 processors, and EKS's image for them is AL2023_ARM_64_NVIDIA" in problem.reason
    )


@pytest.mark.parametrize(
    ("driver", "rolled"),
    [
        ({"enabled": True, "version": "580.95.05"}, "580.95.05"),
        # What agents could not compare with NVML's version, or nobody has written.
        ({"enabled": True, "version": "580.95.05-ubuntu22.04"}, None),
        ({"enabled": True, "version": "580"}, None),
        ({"enabled": True}, None),
    ],
)
def test_a_pinned_driver_is_rolled_out_and_nvidias_controller_is_off(
    driver: dict[str, Any], rolled: str | None
) -> None:
    fleet = planned(byo(CATALOG.gpus["A100-40"], {"1g.5gb": 7}, driver=driver))
    assert [pool.driver_version for pool in fleet.pools] == [rolled]
    given = manifests.operator_values(fleet, manifests.operator_files(fleet))["driver"]
    assert given.get("upgradePolicy") == ({"autoUpgrade": False} if rolled else None)
    # The proof of a pool reads it, and says nothing of its spec.
    (wanted,) = (
        made.inputs["spec"]
        for made in recorded(fleet, "x")
        if made.inputs.get("kind") == "GPUPool" and "spec" in made.inputs
    )
    assert wanted.get("driverVersion") == rolled
    (change,) = plan.compare(fleet, planned(byo(CATALOG.gpus["A100-40"], {"1g.5gb": 7}))).pools
    assert change.effect == (plan.ChangeEffect.ROLL if rolled else plan.ChangeEffect.NONE)


def test_an_adopted_operator_keeps_its_driver_upgrades() -> None:
    operator = stack_file.GpuOperator.model_validate(
        {"existing": True, "driver": {"enabled": True, "version": "580.95.05"}}
    )
    assert drivers.rolled_driver(operator) is None
