"""NVIDIA's device plugin, unchanged, with the fake NVML: the resources that it registers."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from slicewright.rehearsal.cluster.node.launcher import Bind
from slicewright.rehearsal.cluster.silicon import state
from tests.rehearsal.cluster.node.stub_kubelet import StubKubelet

_BALANCED = ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]


def _cut_all(node: Any, profiles: list[str]) -> None:
    for gpu in state.load(node.files.silicon).gpus:
        state.repartition(node.files.silicon, gpu.index, profiles)


def _start(node: Any, strategy: str, *flags: str, binds: tuple[Bind, ...] = ()) -> tuple[Any, Path]:
    process, log = node.start(
        node.toolchain.device_plugin, f"--mig-strategy={strategy}", *flags, binds=binds
    )
    return process, log


def test_whole_gpus_are_offered_by_uuid(make_node: Any) -> None:
    node = make_node()
    with StubKubelet(node.files.device_plugins) as kubelet:
        _start(node, "mixed")
        offered = kubelet.devices("nvidia.com/gpu", 8)
        assert set(offered) == {gpu.uuid for gpu in state.load(node.files.silicon).gpus}
        assert set(offered.values()) == {"Healthy"}
        ids = sorted(offered)[:2]
        assert kubelet.allocate("nvidia.com/gpu", *ids).envs["NVIDIA_VISIBLE_DEVICES"] == ",".join(
            ids
        )
        # Reads topology and NVLinks; it crashes with a library that lacks those functions.
        assert len(kubelet.preferred("nvidia.com/gpu", sorted(offered), 4)) == 4


@pytest.mark.parametrize(
    ("strategy", "profiles", "expected"),
    [
        ("mixed", ["1g.10gb"] * 7, {"nvidia.com/mig-1g.10gb": 56}),
        ("single", ["1g.10gb"] * 7, {"nvidia.com/gpu": 56}),
        (
            "mixed",
            _BALANCED,
            {
                "nvidia.com/mig-1g.10gb": 16,
                "nvidia.com/mig-2g.20gb": 8,
                "nvidia.com/mig-3g.40gb": 8,
            },
        ),
        ("none", ["1g.10gb"] * 7, {"nvidia.com/gpu": 8}),
        # Plugin 0.19.0 compares names by an unanchored pattern: a slice with media engines is
        # offered as one without.
        (
            "mixed",
            ["1g.10gb+me", "3g.40gb"],
            {"nvidia.com/mig-1g.10gb": 8, "nvidia.com/mig-3g.40gb": 8},
        ),
    ],
)
def test_partitions_become_resources(
    make_node: Any, strategy: str, profiles: list[str], expected: dict[str, int]
) -> None:
    node = make_node()
    _cut_all(node, profiles)
    with StubKubelet(node.files.device_plugins) as kubelet:
        _start(node, strategy)
        for resource, count in expected.items():
            kubelet.devices(resource, count)
        assert sorted(kubelet.registrations) == sorted(expected)


def test_mig_devices_are_offered_by_their_own_uuid(make_node: Any) -> None:
    node = make_node(count=2)
    _cut_all(node, ["3g.40gb", "3g.40gb"])
    uuids = {
        ci.uuid
        for gpu in state.load(node.files.silicon).gpus
        for gi in gpu.instances
        for ci in gi.compute_instances
    }
    with StubKubelet(node.files.device_plugins) as kubelet:
        _start(node, "mixed")
        assert set(kubelet.devices("nvidia.com/mig-3g.40gb", 4)) == uuids


@pytest.mark.parametrize(
    ("strategy", "profiles", "says"),
    [
        ("single", _BALANCED, "more than one MIG device type present on node"),
        ("single", [], "has no MIG devices configured"),
    ],
)
def test_layouts_that_the_single_strategy_refuses(
    make_node: Any, strategy: str, profiles: list[str], says: str
) -> None:
    node = make_node(count=2)
    _cut_all(node, profiles)
    with StubKubelet(node.files.device_plugins):
        process, log = _start(node, strategy)
        assert process.wait(timeout=180) == 1
    assert says in log.read_text()


def test_a_plugin_that_ended_for_lack_of_partitions_offers_them_when_it_is_restarted(
    make_node: Any,
) -> None:
    node = make_node(count=2)
    _cut_all(node, [])
    with StubKubelet(node.files.device_plugins) as kubelet:
        process, _ = _start(node, "single")
        assert process.wait(timeout=180) == 1
        _cut_all(node, ["1g.10gb"] * 7)
        _start(node, "single")
        kubelet.devices("nvidia.com/gpu", 14)


def test_half_a_node_in_mig_mode_offers_both_kinds(make_node: Any) -> None:
    node = make_node()
    for index in range(4, 8):
        state.repartition(node.files.silicon, index, ["1g.20gb"] * 3 + ["1g.10gb"])
    with StubKubelet(node.files.device_plugins) as kubelet:
        _start(node, "mixed")
        kubelet.devices("nvidia.com/gpu", 4)
        kubelet.devices("nvidia.com/mig-1g.20gb", 12)
        kubelet.devices("nvidia.com/mig-1g.10gb", 4)


_GPU, _1G, _2G = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"


@pytest.mark.parametrize(
    ("strategy", "cut", "replicas", "expected", "renamed"),
    [
        ("none", ([], []), {_GPU: 4}, {_GPU: 8}, {f"{_GPU}.shared": 8}),
        # The strategy does not look at partitions: what it offers are whole GPUs that no pod can
        # use as such.
        ("none", (["1g.10gb"] * 7,) * 2, {_GPU: 4}, {_GPU: 8}, {f"{_GPU}.shared": 8}),
        ("single", ([], []), {_GPU: 4}, {_GPU: 8}, {f"{_GPU}.shared": 8}),
        ("single", (["1g.10gb"] * 7,) * 2, {_GPU: 4}, {_GPU: 56}, {f"{_GPU}.shared": 56}),
        ("mixed", (["1g.10gb"] * 7,) * 2, {_1G: 2}, {_1G: 28}, {f"{_1G}.shared": 28}),
        # What the config does not name stays exclusive.
        (
            "mixed",
            (["1g.10gb", "2g.20gb"],) * 2,
            {_1G: 3},
            {_1G: 6, _2G: 2},
            {f"{_1G}.shared": 6, _2G: 2},
        ),
        (
            "mixed",
            ([], ["1g.10gb"] * 7),
            {_GPU: 4, _1G: 2},
            {_GPU: 4, _1G: 14},
            {f"{_GPU}.shared": 4, f"{_1G}.shared": 14},
        ),
    ],
)
@pytest.mark.parametrize("rename", [False, True], ids=["same name", "renamed"])
def test_time_slicing_multiplies_what_each_strategy_offers(
    make_node: Any,
    strategy: str,
    cut: tuple[list[str], list[str]],
    replicas: dict[str, int],
    expected: dict[str, int],
    renamed: dict[str, int],
    rename: bool,
) -> None:
    node = make_node(count=2)
    for index, profiles in enumerate(cut):
        if profiles:
            state.repartition(node.files.silicon, index, profiles)
    flag, bind = node.sharing(replicas, rename=rename)
    with StubKubelet(node.files.device_plugins) as kubelet:
        _start(node, strategy, flag, binds=(bind,))
        offered = {
            resource: kubelet.devices(resource, count)
            for resource, count in (renamed if rename else expected).items()
        }
        assert sorted(kubelet.registrations) == sorted(offered)
    for resource, ids in offered.items():
        share = replicas.get(resource.removesuffix(".shared"), 1)
        assert len({identity.split("::")[0] for identity in ids}) * share == len(ids)


def test_a_pod_gets_one_replica_of_a_partition_and_not_two(make_node: Any) -> None:
    node = make_node(count=1)
    _cut_all(node, ["1g.10gb"] * 7)
    flag, bind = node.sharing({_GPU: 4})
    with StubKubelet(node.files.device_plugins) as kubelet:
        _start(node, "single", flag, binds=(bind,))
        ids = sorted(kubelet.devices(_GPU, 28))
        assert (
            kubelet.allocate(_GPU, ids[0]).envs["NVIDIA_VISIBLE_DEVICES"] == ids[0].split("::")[0]
        )
        with pytest.raises(
            grpc.RpcError, match="maximum request size for shared resources is 1; found 2"
        ):
            kubelet.allocate(_GPU, *ids[:2])


def test_a_critical_xid_makes_its_gpu_unhealthy_and_others_are_skipped(make_node: Any) -> None:
    node = make_node(count=2)
    uuid = state.load(node.files.silicon).gpus[1].uuid
    with StubKubelet(node.files.device_plugins) as kubelet:
        _start(node, "none")
        kubelet.devices("nvidia.com/gpu", 2, healthy=2)

        def report() -> None:
            state.record_xid(node.files.silicon, 0, 31)
            state.record_xid(node.files.silicon, 1, 79)

        # The plugin listens for events some time after it has listed its devices.
        listed = kubelet.devices("nvidia.com/gpu", 2, healthy=1, meanwhile=report)
        assert listed[uuid] == "Unhealthy"


def test_a_new_kubelet_socket_makes_it_register_again(make_node: Any) -> None:
    node = make_node(count=2)
    _cut_all(node, ["3g.40gb"] * 2)
    with StubKubelet(node.files.device_plugins) as kubelet:
        process, _ = _start(node, "mixed")
        before = set(kubelet.devices("nvidia.com/mig-3g.40gb", 4))
    _cut_all(node, ["3g.40gb"] * 2)
    with StubKubelet(node.files.device_plugins) as kubelet:
        assert not set(kubelet.devices("nvidia.com/mig-3g.40gb", 4)) & before
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=180) == 0
