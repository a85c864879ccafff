"""NVIDIA's programs do today what the recordings say, to which the simulation is held. 6 min.

`pytest --record-operands` writes the recordings anew.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import list_and_watch
from slicewright.rehearsal.cluster.node.launcher import Bind
from slicewright.rehearsal.cluster.node.operands.mig_manager import CONFIG, STATE
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.host.toolchain.tools import TOOLS
from tests.rehearsal.cluster.gpu_operator.conftest import VALUES, install_operator
from tests.rehearsal.cluster.kubelet.simulated_cluster import running_cluster
from tests.rehearsal.cluster.node.operands import scenes
from tests.rehearsal.cluster.node.operands.scenes import SCENES, Act, Case, Scene, Seen
from tests.rehearsal.cluster.node.stub_kubelet import StubKubelet

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]
RECORDING = Path(__file__).with_name("mig-manager.json")
QUIET_S = 12.0
"""Without a change, a node has settled: longer than any program waits here between two looks, but
for feature discovery, which is restarted with each change.
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Any]:
    with running_cluster(tmp_path_factory.mktemp("recording"), toolchain) as made:
        made.add_node("system")
        install_operator(made, VALUES, scenes.LAYOUTS)
        yield made


class Recorder:
    """Keeps every state of one node, with its GPUs as they are when the state is seen."""

    def __init__(self, cluster: Any, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._file = cluster.directory / "nodes" / name / "silicon" / "state"
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._last = time.monotonic()
        self.states: list[Seen] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def file(self) -> Path:
        return Path(self._file)

    def _watch(self) -> None:
        name = f"metadata.name={self._name}"
        for event in list_and_watch(
            self._cluster.client, "/api/v1/nodes", stop=self._stop, fieldSelector=name
        ):
            if event.type == "LISTED":
                seen = event.items
            else:  # a bookmark has a Node with nothing in it
                seen = [event.object] if event.type in ("ADDED", "MODIFIED") else []
            for node in seen:
                if self._file.exists():
                    self._see(node)

    def _see(self, node: dict[str, Any]) -> None:
        seen = Seen(
            labels=node["metadata"].get("labels") or {},
            allocatable=node["status"].get("allocatable") or {},
            silicon=state.load(self._file),
        )
        with self._changed:
            before = self.states[-1] if self.states else None
            if (
                before is None
                or before.labels != seen.labels
                or (before.allocatable != seen.allocatable)
            ):
                self._last = time.monotonic()
            self.states.append(seen)
            self._changed.notify_all()

    def settle(self, layout: str) -> None:
        """Waits until mig-manager is done with the layout, and nothing has changed for a while."""
        deadline = time.monotonic() + 240
        with self._changed:
            while True:
                labels = self.states[-1].labels if self.states else {}
                is_done = labels.get(CONFIG) == layout and labels.get(STATE) in (
                    "success",
                    "failed",
                )
                if is_done and time.monotonic() > self._last + QUIET_S:
                    return
                assert time.monotonic() < deadline, (self._name, layout, labels)
                self._changed.wait(0.5)

    def forget(self) -> None:
        """Keeps only the last state, from which the next act starts."""
        with self._changed:
            del self.states[:-1]

    def stop(self) -> None:
        self._stop.set()


def record(cluster: Any, name: str, scene: Scene) -> list[dict[str, Any]]:
    path = cluster.add_node(name, scene.machine)
    recorder = Recorder(cluster, name)
    try:
        recorder.settle("all-disabled")
        rows = [{"act": "boot", **scenes.trace(recorder.states)}]
        for act in scene.acts:
            recorder.forget()
            _play(cluster, path, recorder, act)
            rows.append({"act": act.title, **scenes.trace(recorder.states)})
        return rows
    finally:
        recorder.stop()


def _play(cluster: Any, path: str, recorder: Recorder, act: Act) -> None:
    if act.in_use is not None:
        state.run_process(recorder.file, scenes.holder(state.load(recorder.file), act.in_use))
    # The state goes with the layout, or a stale `success` could not be told from the new one.
    changed = {CONFIG: act.layout, STATE: None}
    cluster.client.patch(path, {"metadata": {"labels": changed}})
    recorder.settle(act.layout)
    if act.in_use is not None:
        state.end_processes(recorder.file)


def record_case(node: Any, case: Case) -> dict[str, Any]:
    """What device plugin and feature discovery make of a node."""
    for gpu, profiles in scenes.cut_of(case).items():
        state.repartition(node.files.silicon, gpu, profiles)
    etc = node.directory / "plugin"
    etc.mkdir()
    (etc / "config.yaml").write_text(scenes.config_of(case))
    told = (f"--mig-strategy={case.strategy}", "--config-file=/etc/plugin/config.yaml")
    bind = Bind(source=etc, target=Path("/etc/plugin"))
    with StubKubelet(node.files.device_plugins) as kubelet:
        plugin, log = node.start(node.toolchain.device_plugin, *told, binds=(bind,))
        last, since = kubelet.offered, time.monotonic()
        while plugin.poll() is None and time.monotonic() < since + (5.0 if last else 20.0):
            time.sleep(0.1)
            if "No devices found" in log.read_text():
                break
            if (now := kubelet.offered) != last:
                last, since = now, time.monotonic()
        ended = plugin.poll()
    code, output = node.run(
        node.toolchain.gpu_feature_discovery,
        "--oneshot",
        "--use-node-feature-api=false",
        "-o=",
        "--no-timestamp",
        "--machine-type-file=/sys/class/dmi/id/product_name",
        *told,
        binds=(bind,),
    )
    assert code == 0, output
    pairs = [line.split("=", 1) for line in output.splitlines() if line.startswith("nvidia.com/")]
    return {
        "refused": ended == 1,
        "devices": {resource: len(ids) for resource, ids in last.items()},
        "features": dict(sorted(pairs)),
    }


def keep_or_compare(file: Path, now: Any, config: pytest.Config) -> None:
    """Writes the recording where that is asked for."""
    if config.getoption("--record-operands"):
        file.write_text(json.dumps(now, indent=1) + "\n")
    assert json.loads(json.dumps(now)) == json.loads(file.read_text())


def test_plugin_and_feature_discovery_make_of_a_node_what_is_recorded(
    make_node: Any, request: pytest.FixtureRequest
) -> None:
    cases = {
        name: record_case(make_node(case.model, 2, "580.95.05"), case)
        for name, case in scenes.CASES.items()
    }
    now = {"versions": versions(), "cases": cases}
    keep_or_compare(RECORDING.with_name("clients.json"), now, request.config)


def versions() -> dict[str, str]:
    """Of the programs that are recorded, as the rehearsal builds them."""
    return {t.name: t.version for t in TOOLS if t.name in ("mig-parted", "device-plugin")}


def test_mig_manager_plugin_and_feature_discovery_do_what_is_recorded(
    cluster: Any, request: pytest.FixtureRequest
) -> None:
    with ThreadPoolExecutor(len(SCENES)) as threads:
        found = {
            name: threads.submit(record, cluster, name, scene) for name, scene in SCENES.items()
        }
        rows = {name: future.result() for name, future in found.items()}
    keep_or_compare(RECORDING, {"versions": versions(), "scenes": rows}, request.config)
