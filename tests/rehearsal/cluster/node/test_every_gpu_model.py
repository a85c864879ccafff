"""Every GPU model of the catalog comes up in each mode that it has, by the programs that serve it:
GKE's plugin, and the operator's mig-parted, device plugin and MPS daemon. What cannot be rehearsed
is refused.

A new model needs a row here, and `test_every_model_of_the_catalog_has_a_row` says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import catalog, plan, stack_file
from slicewright.rehearsal.clouds.aws.machines import machines as aws_machines
from slicewright.rehearsal.clouds.gcp.machines import GPU_MODELS
from slicewright.rehearsal.cluster.node.launcher import Bind
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.models import models
from slicewright.rehearsal.scenario.existing_cluster.nodes import fake_key
from slicewright.rehearsal.scenario.stack_check import unrehearsable
from tests.rehearsal.cluster.gke_node.test_gke_plugin import GkeNode
from tests.rehearsal.cluster.gke_node.test_gke_plugin import make_node as make_gke_node
from tests.rehearsal.cluster.node.stub_kubelet import StubKubelet
from tests.rehearsal.cluster.node.test_mps_control import REPLICAS, Shared, until

__all__ = ["make_gke_node"]

_GPU = "nvidia.com/gpu"
_GPUS, _SHARES = 2, 3


@dataclass(frozen=True)
class Row:
    """How one model is partitioned here."""

    profile: str | None = None
    """None: the model has no MIG."""
    per_gpu: int = 1
    """Partitions of that profile which fill one GPU."""
    simulated: bool = True


ROWS: Mapping[str, Row] = {
    "A30": Row("1g.6gb", 4),
    "A100-40": Row("3g.20gb", 2),
    "A100-80": Row("2g.20gb", 3),
    "H100-80": Row("1g.10gb", 7),
    "H100-94": Row("1g.12gb", 7),
    "H100-96": Row("1g.12gb", 7, simulated=False),
    "H200": Row("1g.18gb", 7),
    "B200": Row("1g.45gb", 4),
    "GB200": Row("1g.23gb", 7),
    "B300": Row("1g.34gb", 7),
    "GB300": Row("1g.35gb", 7, simulated=False),
    "RTX-PRO-6000": Row("1g.24gb", 4),
    "T4": Row(),
    "L4": Row(),
    "A10G": Row(),
    "L40S": Row(),
}
SIMULATED = [name for name, row in ROWS.items() if row.simulated]
PARTITIONED = [name for name in SIMULATED if ROWS[name].profile]
ON_GKE = sorted(set(GPU_MODELS.values()) & ROWS.keys())


def key(name: str) -> str:
    """The model's key in the fake."""
    return fake_key(catalog.load().gpus[name])


def test_every_model_of_the_catalog_has_a_row() -> None:
    gpus = catalog.load().gpus
    assert ROWS.keys() == gpus.keys()
    assert {name for name, row in ROWS.items() if row.profile} == {
        name for name, gpu in gpus.items() if gpu.profiles
    }
    assert {name for name in ROWS if key(name) in models()} == set(SIMULATED)


def test_every_gpu_that_a_cloud_sells_is_simulated_there() -> None:
    sold: dict[str, set[str]] = {"gke": {"T4"}, "eks": set()}
    for (cloud, _), machine in catalog.load().machines.items():
        if machine.gpu is not None:
            sold[cloud].add(machine.gpu.name)
    assert sold["gke"] == set(ON_GKE)
    assert sold["eks"] <= {machine.gpu for machine in aws_machines().values()} & set(SIMULATED)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if not row.simulated])
def test_a_model_that_is_not_simulated_is_refused_before_anything_is_made(name: str) -> None:
    pool = {
        "name": "p",
        "gpu": {"model": name, "count": 1},
        "select": {"rack": "a"},
        "nodes": {"count": 1},
    }
    raw = {"cloud": "byo", "cluster": {"name": "lab", "context": "lab"}, "node_pools": [pool]}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    (problem,) = unrehearsable(fleet)
    assert problem.path == ("node_pools", 0, "gpu", "model")
    assert f"the simulated GPUs have no {name}" in problem.reason
    assert "write one of" in problem.instead


# ---- GKE's own partitioner and plugin


def _gke_sharing(strategy: str) -> dict[str, Any] | None:
    return {"GPUSharingStrategy": strategy, "MaxSharedClientsPerGPU": _SHARES} if strategy else None


def _gke_modes() -> Iterator[tuple[str, bool, str]]:
    for name in ON_GKE:
        for partitioned in (False, True) if ROWS[name].profile else (False,):
            for strategy in ("", "time-sharing", "mps"):
                yield name, partitioned, strategy


def _partitioned_by_gke(node: GkeNode) -> None:
    """Starts the plugin; with the reboot that an A100 needs."""
    process = node.start()
    if models()[state.load(node.files.silicon).gpus[0].model.key].mig == "after reset":
        assert process.wait(timeout=180) == 1, node.log
        assert "rebooting the node" in node.log
        state.reboot(node.files.silicon)
        node.start()


@pytest.mark.parametrize(("name", "partitioned", "strategy"), list(_gke_modes()))
def test_a_model_comes_up_as_gke_serves_it(
    make_gke_node: Any, name: str, partitioned: bool, strategy: str
) -> None:
    row = ROWS[name]
    size = row.profile if partitioned else None
    node = make_gke_node(size, key(name), _GPUS, _gke_sharing(strategy))
    with StubKubelet(node.files.device_plugins) as kubelet:
        if size:
            _partitioned_by_gke(node)
        else:
            node.start()
        count = _GPUS * (row.per_gpu if size else 1) * (_SHARES if strategy else 1)
        kubelet.devices(_GPU, count, healthy=count)
    assert node.profiles == [{size: row.per_gpu} if size else {}] * _GPUS


# ---- the operator's programs


def _partition(node: Any, profile: str, per_gpu: int) -> None:
    """By mig-parted; with the reboot that mig-manager asks for where MIG mode waits for one."""
    directory = node.directory / "layouts"
    directory.mkdir()
    layout = {"devices": "all", "mig-enabled": True, "mig-devices": {profile: per_gpu}}
    config = {"version": "v1", "mig-configs": {"wanted": [layout]}}
    (directory / "config.yaml").write_text(json.dumps(config))
    bind = Bind(source=directory, target=Path("/etc/layouts"))
    command = (node.toolchain.mig_parted, "apply", "-f", "/etc/layouts/config.yaml", "-c", "wanted")
    code, output = node.run(*command, binds=(bind,))
    if state.reboot_pending(node.files.silicon):
        state.reboot(node.files.silicon)
        code, output = node.run(*command, binds=(bind,))
    assert code == 0, output
    found = [dict(Counter(gpu.profiles)) for gpu in state.load(node.files.silicon).gpus]
    assert found == [{profile: per_gpu}] * _GPUS


def _resource(profile: str, strategy: str) -> str:
    return _GPU if strategy == "single" else f"nvidia.com/mig-{profile}"


@pytest.mark.parametrize("replicas", [1, _SHARES])
@pytest.mark.parametrize("name", SIMULATED)
def test_whole_gpus_come_up_under_the_operator(make_node: Any, name: str, replicas: int) -> None:
    node = make_node(key(name), _GPUS, "580.95.05")
    flag, bind = node.sharing({_GPU: replicas}) if replicas > 1 else ("--mig-strategy=none", None)
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start(node.toolchain.device_plugin, flag, binds=(bind,) if bind else ())
        kubelet.devices(_GPU, _GPUS * replicas)


@pytest.mark.parametrize(
    ("strategy", "replicas"), [("single", 1), ("mixed", 1), ("single", _SHARES), ("mixed", _SHARES)]
)
@pytest.mark.parametrize("name", PARTITIONED)
def test_partitions_come_up_under_the_operator(
    make_node: Any, name: str, strategy: str, replicas: int
) -> None:
    row = ROWS[name]
    assert row.profile is not None
    node = make_node(key(name), _GPUS, "580.95.05")
    _partition(node, row.profile, row.per_gpu)
    resource = _resource(row.profile, strategy)
    flag, bind = node.sharing({resource: replicas}) if replicas > 1 else ("", None)
    flags = [f"--mig-strategy={strategy}", *([flag] if flag else [])]
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start(node.toolchain.device_plugin, *flags, binds=(bind,) if bind else ())
        kubelet.devices(resource, _GPUS * row.per_gpu * replicas)


@pytest.mark.parametrize("name", SIMULATED)
def test_whole_gpus_are_shared_by_mps_under_the_operator(
    make_node: Any, tmp_path: Path, name: str
) -> None:
    shared = Shared(make_node(key(name), _GPUS, "580.95.05"), tmp_path)
    _, log = shared.start()
    until((shared.root / ".ready").exists, log)
    with StubKubelet(shared.node.files.device_plugins) as kubelet:
        shared.start_plugin()
        kubelet.devices(_GPU, _GPUS * REPLICAS)
