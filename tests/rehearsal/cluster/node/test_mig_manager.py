"""NVIDIA's mig-manager, unchanged: it applies the layout that its node's label names."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import manifests, plan, stack_file
from slicewright.rehearsal.cluster.kubelet.nodes import reboots
from slicewright.rehearsal.cluster.node import launcher
from slicewright.rehearsal.cluster.node.fake_dbus import SystemBus
from slicewright.rehearsal.cluster.node.launcher import Bind
from slicewright.rehearsal.cluster.silicon import state
from tests.rehearsal.cluster.node.stub_api import StubApi

_CONFIG = "nvidia.com/mig.config"
_STATE = "nvidia.com/mig.config.state"
_LAYOUTS = {
    "seven": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}],
    "half": [{"devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 2}}],
    "impossible": [{"devices": "all", "mig-enabled": True, "mig-devices": {"4g.40gb": 2}}],
}


@pytest.fixture
def bus() -> Iterator[SystemBus]:
    made = SystemBus()
    yield made
    made.close()


def _start(node: Any, api: StubApi, config: str = "", *, env: dict[str, str] | None = None) -> Path:
    """Starts mig-manager with mig-parted's config; returns its log.

    env: of a node whose image brings the driver. mig-manager then stops services of the host.
    """
    shims = reboots.write_shims(node.directory / "shims")
    path = f"{shims}:{node.toolchain.mig_parted.parent}:/usr/bin:/bin"
    of_host = () if env is None else ("-d",)
    programs = Bind(source=node.toolchain.mig_parted, target=Path("/usr/bin/nvidia-mig-parted"))
    etc = node.directory / f"mig-manager-{node.runs}"
    etc.mkdir()
    written = config or json.dumps({"version": "v1", "mig-configs": _LAYOUTS})
    (etc / "config.yaml").write_text(written)
    (etc / "clients.yaml").write_text(json.dumps({"version": "v1", "systemd-services": []}))
    api.kubeconfig(etc / "kubeconfig")
    _, log = node.start(
        node.toolchain.mig_manager,
        "--kubeconfig=/etc/mig-manager/kubeconfig",
        "-f=/etc/mig-manager/config.yaml",
        "-g=/etc/mig-manager/clients.yaml",
        "-m=/host",
        *of_host,
        env={"NODE_NAME": "n1", **({} if env is None else {"PATH": path, **env})},
        binds=(
            Bind(source=etc, target=Path("/etc/mig-manager")),
            Bind(source=node.files.root, target=Path("/host"), read_only=env is None),
            *(() if env is None else (programs,)),
        ),
        host_paths=(shims,),
    )
    return Path(log)


def test_a_label_becomes_a_layout(make_node: Any, bus: SystemBus) -> None:
    node = make_node(count=2)
    bus.listen(node.files.system_bus)
    with StubApi("n1") as api:
        api.label({_CONFIG: "seven"})
        log = _start(node, api)
        try:
            api.wait_for_states("pending", "success")
        except AssertionError:
            pytest.fail(f"{api.states}\n{log.read_text()}")
    assert [dict(Counter(gpu.profiles)) for gpu in state.load(node.files.silicon).gpus] == [
        {"1g.10gb": 7}
    ] * 2


def test_a_layout_that_does_not_exist_fails_at_once(make_node: Any, bus: SystemBus) -> None:
    node = make_node(count=1)
    bus.listen(node.files.system_bus)
    with StubApi("n1") as api:
        api.label({_CONFIG: "nonsense"})
        _start(node, api)
        api.wait_for_states("failed")


def _planned(layout: dict[str, int]) -> plan.PoolPlan:
    pool = {"name": "a", "gpu": {"model": "H100-80", "count": 8}, "nodes": {"count": 1}}
    raw: dict[str, Any] = {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "node_pools": [{**pool, "partition": {"mode": "operator", "layout": layout}}],
    }
    (planned,) = plan.read(json.dumps(raw), stack_file.Source("test", raw)).pools
    return planned


def test_a_node_that_still_has_the_old_layout_outlives_a_restart_of_mig_manager(
    make_node: Any, bus: SystemBus
) -> None:
    """Pods hold it on the old layout, while the program has the new one's config rolled out."""
    node = make_node(count=8)
    bus.listen(node.files.system_bus)
    old, new = _planned({"3g.40gb": 2}), _planned({"1g.10gb": 3})
    assert old.offer.mig_config
    assert new.offer.mig_config not in (None, old.offer.mig_config)
    with StubApi("n1") as api:
        api.label({_CONFIG: old.offer.mig_config})
        _start(node, api, manifests.as_yaml(manifests.mig_parted_config([old])))
        api.wait_for_states("pending", "success")
    launcher.stop(node.started.pop(), grace_s=5)
    with StubApi("n1") as api:
        api.label({_CONFIG: old.offer.mig_config})
        _start(node, api, manifests.as_yaml(manifests.mig_parted_config([new])))
        api.wait_for_states("success")
    assert state.load(node.files.silicon).gpus[0].profiles == ("3g.40gb", "3g.40gb")


def test_without_a_system_bus_no_state_is_ever_written(make_node: Any) -> None:
    node = make_node(count=1)
    with StubApi("n1") as api:
        api.label({_CONFIG: "seven"})
        log = _start(node, api)
        for _ in range(200):
            if "system_bus_socket" in log.read_text():
                break
            with pytest.raises(AssertionError):
                api.wait_for_states("any", timeout_s=0.1)
        assert "system_bus_socket" in log.read_text()
        assert api.states == []
    assert state.load(node.files.silicon).gpus[0].instances == ()


def test_after_a_failure_it_tries_again_only_when_it_restarts(
    make_node: Any, bus: SystemBus
) -> None:
    """A service of the host holds the GPU. That it lets go, or that the node changes otherwise, is
    not noticed.
    """
    node = make_node(count=1)
    bus.listen(node.files.system_bus)
    held = state.Process(gpu=0, pid=77, name="nv-hostengine")
    state.run_process(node.files.silicon, held)
    with StubApi("n1") as api:
        api.label({_CONFIG: "seven"})
        _start(node, api)
        api.wait_for_states("pending", "failed")
        state.end_processes(node.files.silicon)
        api.label({"example.org/other": "label"})
        api.label({_CONFIG: "nonsense", _STATE: None})
        api.wait_for_states("pending", "failed", "failed")
    assert state.load(node.files.silicon).gpus[0].instances == ()
    launcher.stop(node.started.pop(), grace_s=5)
    with StubApi("n1") as api:
        api.label({_CONFIG: "seven", _STATE: "failed"})
        _start(node, api)
        api.wait_for_states("failed", "pending", "success")
    assert state.load(node.files.silicon).gpus[0].profiles == ("1g.10gb",) * 7


def test_a_changed_map_is_read_only_with_the_next_label(make_node: Any, bus: SystemBus) -> None:
    """So a layout of the same name but other content is never applied: our names have the content
    in them.
    """
    node = make_node(count=1)
    bus.listen(node.files.system_bus)
    with StubApi("n1") as api:
        api.label({_CONFIG: "seven"})
        _start(node, api)
        api.wait_for_states("pending", "success")
        (file,) = node.directory.glob("mig-manager-*/config.yaml")
        file.write_text(file.read_text().replace('"1g.10gb": 7', '"1g.10gb": 3'))
        api.label({"example.org/other": "label"})
        api.label({_CONFIG: "half"})
        api.wait_for_states("pending", "success", "pending", "success")
        assert state.load(node.files.silicon).gpus[0].profiles == ("3g.40gb",) * 2
        api.label({_CONFIG: "seven"})
        api.wait_for_states(*("pending", "success") * 3)
    assert state.load(node.files.silicon).gpus[0].profiles == ("1g.10gb",) * 3


def test_pending_lasts_as_long_as_the_driver_hangs(make_node: Any, bus: SystemBus) -> None:
    node = make_node(count=1)
    bus.listen(node.files.system_bus)
    hang = state.Injection(call="nvmlDeviceCreateGpuInstance", delay_ms=3_600_000)
    state.inject(node.files.silicon, hang)
    with StubApi("n1") as api:
        api.label({_CONFIG: "seven"})
        _start(node, api)
        api.wait_for_states("pending")
        with pytest.raises(AssertionError):
            api.wait_for_states("pending", "success", timeout_s=3)
        state.heal(node.files.silicon)
        api.wait_for_states("pending", "success")
    assert state.load(node.files.silicon).gpus[0].profiles == ("1g.10gb",) * 7


def test_the_kubelet_is_stopped_only_as_the_unit_that_the_environment_names(
    make_node: Any, bus: SystemBus
) -> None:
    """Only for a change of the MIG mode, with NVIDIA's default; `host_services` is another list.

    NVIDIA/gpu-operator #2415. All wait 30 seconds after they have stopped services.
    """
    variable, kubelet = "HOST_KUBELET_SYSTEMD_SERVICE", "kubelet.service"
    environments = {"default": {}, "empty": {variable: ""}, "no unit": {variable: "none.service"}}
    stopped: dict[str, list[tuple[str, bool]]] = {name: [] for name in environments}
    with contextlib.ExitStack() as stack:
        started = {}
        for name, env in environments.items():
            node, changes = make_node(count=1), stopped[name]

            def see(unit: str, active: bool, changes: list[tuple[str, bool]] = changes) -> None:
                changes.append((unit, active))

            bus.listen(node.files.system_bus, {kubelet: True}, see)
            api = stack.enter_context(StubApi("n1"))
            api.label({_CONFIG: "seven"})
            started[name] = (node, api, _start(node, api, env=env))
        for node, api, log in started.values():
            try:
                api.wait_for_states("pending", "success")
            except AssertionError:
                pytest.fail(f"{api.states}\n{log.read_text()}")
            assert state.load(node.files.silicon).gpus[0].profiles == ("1g.10gb",) * 7
    assert stopped == {
        "default": [(kubelet, False), (kubelet, True)],
        "empty": [],
        "no unit": [],
    }
