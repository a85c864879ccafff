"""Which programs of nodes are forks, and that others do not wait behind those of a large fleet."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slicewright.rehearsal.cluster.kubelet.pods import large_fleets
from slicewright.rehearsal.cluster.kubelet.pods.large_fleets import Starts, is_forked
from slicewright.rehearsal.cluster.kubelet.pods.launching import Launching
from slicewright.rehearsal.cluster.node import launcher


def _pod(name: str, owner: str) -> dict[str, Any]:
    owners = [{"kind": owner, "controller": True}] if owner else []
    return {"metadata": {"name": name, "namespace": "n", "ownerReferences": owners}, "spec": {}}


@pytest.mark.parametrize(
    ("owner", "nodes", "mode", "expected"),
    [
        ("DaemonSet", 16, "by size", False),
        ("DaemonSet", 17, "by size", True),
        ("DaemonSet", 1, "forked", True),
        ("DaemonSet", 500, "own", False),
        ("ReplicaSet", 500, "by size", False),
        ("ReplicaSet", 500, "forked", False),
        ("", 500, "forked", False),
    ],
)
def test_pods_of_daemon_sets_are_forked_in_large_clusters_or_as_asked(
    owner: str, nodes: int, mode: Starts, expected: bool
) -> None:
    assert is_forked(_pod("p", owner), nodes, mode) == expected


def test_a_wrong_value_of_the_variable_is_refused() -> None:
    assert large_fleets.mode_of({}) == "by size"
    assert large_fleets.mode_of({large_fleets.VARIABLE: "forked"}) == "forked"
    with pytest.raises(ValueError, match="=some: must be own or forked"):
        large_fleets.mode_of({large_fleets.VARIABLE: "some"})


def test_the_controller_starts_while_hundreds_of_agents_wait_to_be_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    agents_go_on = threading.Event()
    process = object()

    def start(spec: Any) -> Any:
        if spec.name.startswith("agent"):
            agents_go_on.wait()
        return process

    def specify(self: Any, wanted: Any) -> Any:
        name = wanted.run.pod["metadata"]["name"]
        return SimpleNamespace(name=name, log=tmp_path / "logs" / "0.log", gpu_devices=None)

    monkeypatch.setattr(launcher, "start", start)
    monkeypatch.setattr(Launching, "_specify", specify)
    tools = cast(Any, None)
    starting = Launching({}, tmp_path, tools, "", "", "legacy", tools, lambda pod: False)

    def wanted(name: str, owner: str) -> Any:
        return SimpleNamespace(run=SimpleNamespace(pod=_pod(name, owner)))

    async def all_of_them() -> None:
        agents = [
            asyncio.create_task(starting.start(wanted(f"agent-{number}", "DaemonSet")))
            for number in range(300)
        ]
        await asyncio.sleep(0)  # they are all in the queue
        assert (await starting.start(wanted("controller", "ReplicaSet")))[0] is process
        assert not any(agent.done() for agent in agents)
        agents_go_on.set()
        await asyncio.gather(*agents)

    try:
        asyncio.run(asyncio.wait_for(all_of_them(), 180))
    finally:
        agents_go_on.set()
