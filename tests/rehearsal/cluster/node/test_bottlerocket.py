"""Bottlerocket's own partitioning and device plugin, simulated."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from slicewright.infra import catalog, manifests, plan, stack_file
from slicewright.rehearsal.clouds.aws.ec2.bottlerocket_data import bottlerocket_gpus
from slicewright.rehearsal.clouds.aws.ec2.user_data import BadUserData
from slicewright.rehearsal.cluster.node.bottlerocket import booted, offered, settings_of
from slicewright.rehearsal.cluster.silicon import state

MACHINES = {
    "A100-40": "p4d.24xlarge",
    "A100-80": "p4de.24xlarge",
    "H100-80": "p5.48xlarge",
    "H200": "p5en.48xlarge",
    "B200": "p6-b200.48xlarge",
}
KNOWN = catalog.bottlerocket_mig()


def planned(machine: str, **pool: Any) -> plan.EksPoolPlan:
    raw: dict[str, Any] = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": machine,
                "ami_type": "BOTTLEROCKET_x86_64_NVIDIA",
                "nodes": {"count": 1},
                **pool,
            }
        ],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    return fleet.pools[0]


def settings(pool: plan.EksPoolPlan) -> dict[str, Any]:
    """As the node reads them of its user data."""
    assert pool.settings.template is not None
    return bottlerocket_gpus({"UserData": manifests.eks_user_data(pool.settings.template)})


@pytest.mark.parametrize(
    ("gpu", "profile"),
    [
        (name, profile.name)
        for name in MACHINES
        for profile in KNOWN.profiles(catalog.load().gpus[name])
    ],
)
def test_a_node_boots_into_the_layout_that_the_pool_plans(gpu: str, profile: str) -> None:
    pool = planned(MACHINES[gpu], partition={"mode": "native", "profile": profile})
    asked = settings_of(settings(pool))
    found = booted(state.new(gpu, 8, "580.159.03", "seed"), asked)
    wanted = [(profile,) * pool.offer.layouts[0][profile]] * 8
    assert [one.profiles for one in found.gpus] == wanted
    counts = {name: len(ids) for name, ids in offered(found, asked).items()}
    assert counts == pool.offer.resources


def test_every_model_that_bottlerocket_knows_was_tried() -> None:
    assert set(MACHINES) == set(KNOWN.models)


@pytest.mark.parametrize("rename", [True, False])
def test_time_slicing_offers_replicas_under_the_planned_name(rename: bool) -> None:
    sharing = {"mode": "time-slicing", "replicas": 3, "rename_by_default": rename}
    pool = planned("g6.xlarge", sharing=sharing)
    asked = settings_of(settings(pool))
    found = booted(state.new("L4", 1, "580.159.03", "seed"), asked)
    counts = {name: len(ids) for name, ids in offered(found, asked).items()}
    assert counts == {name: count for name, count in pool.offer.resources.items() if count}


def test_whole_gpus_have_mig_turned_off() -> None:
    before = state.partitioned(state.new("A100-40", 1, "580.159.03", "seed"), 0, ["7g.40gb"])
    (gpu,) = booted(before, settings_of(settings(planned("p4d.24xlarge")))).gpus
    assert (gpu.mig, gpu.instances) == (False, ())


def test_unknown_profile_gives_one_instance() -> None:
    asked = {"device-partitioning-strategy": "mig", "mig": {"profile": {"a100.40gb": "4g.20gb"}}}
    (gpu,) = booted(state.new("A100-40", 1, "580.159.03", "seed"), settings_of(asked)).gpus
    assert gpu.profiles == ("7g.40gb",)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('device-partitioning-strategy = "some"', "device-partitioning-strategy cannot be 'some'"),
        ("replica = 2", "unknown setting"),
        ("time-slicing = { replicas = 1 }", "replicas cannot be 1"),
        ('mig = { profile = { "a100" = "7" } }', "a100 cannot be '7'"),
        ('mig = { profile = { "a100.40gb" = 7 } }', "cannot be 7"),
        ("= 1", "TOML"),
    ],
)
def test_settings_that_bottlerocket_refuses_are_refused(line: str, says: str) -> None:
    text = f"[settings.kubelet-device-plugins.nvidia]\n{line}\n"
    with pytest.raises(BadUserData, match=says):
        bottlerocket_gpus({"UserData": base64.b64encode(text.encode()).decode()})
