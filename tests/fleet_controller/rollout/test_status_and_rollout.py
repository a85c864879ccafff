"""`slicewright status` and `rollout` on a real API server, with the controller at work."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli
from slicewright.apis import names
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, DEGRADED, NOT_VERIFIED, VERIFIED
from slicewright.fleet_controller.app.loop import Loop
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.kubeapi import ApiError, Client
from tests.fleet_controller import kubernetes_objects as objects
from tests.fleet_controller.api_server.test_api_server import Clock, running
from tests.fleet_controller.kubernetes_objects import POOLS, REPORTS

ROOT = Path(__file__).resolve().parents[3]
SMALL = {"1g.5gb": 7}
A100 = "NVIDIA A100-SXM4-40GB"
_PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


class Command:
    """`slicewright` as a person types it, with the cluster's own kubeconfig."""

    def __init__(self, api_server: Any, capsys: pytest.CaptureFixture[str]) -> None:
        self._kubeconfig, self._capsys = str(api_server.endpoint.kubeconfig), capsys

    def __call__(self, *arguments: str) -> Said:
        self._capsys.readouterr()
        code = cli.main([*arguments, "--kubeconfig", self._kubeconfig])
        out, err = self._capsys.readouterr()
        return Said(code, out, err)


@pytest.fixture
def say(api_server: Any, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(api_server, capsys)


@pytest.fixture
def loop(api_server: Any) -> Iterator[Loop]:
    with running(api_server, Clock()) as loop:
        yield loop


@pytest.fixture
def pool(api_server: Any, loop: Loop) -> Iterator[str]:
    """Two nodes in service with the layout old-1."""
    admin = api_server.admin
    done = {"nvidia.com/mig.config": "old-1", "nvidia.com/mig.config.state": "success"}
    for name in ("d1", "d2"):
        node = api_server.make_node(name, "day2")
        admin.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": done}})
        gpus = [{"indexes": [0, 1], "mig": "enabled", "instances": SMALL}]
        api_server.apply(REPORTS, objects.report(node, "day2", models=[A100], gpus=gpus))
    admin.create(POOLS, objects.pool("day2", fewest=2, migConfig="old-1"))
    for name in ("d1", "d2"):
        api_server.wait(lambda name=name: not api_server.node(name).held, f"{name} is released")
    api_server.wait(lambda: _condition(api_server, "day2") == "AllNodesProven", "verified")
    yield "day2"
    for path in (f"{_PODS}/llm-0", f"{POOLS}/day2", *(f"/api/v1/nodes/{n}" for n in ("d1", "d2"))):
        with suppress(ApiError):
            admin.delete(path, gracePeriodSeconds="0")
    api_server.wait(lambda: "day2" not in _pools(api_server), "the pool is gone")


@pytest.fixture
def undoable(pool: str, api_server: Any) -> str:
    """`pool`, verified with a layout that can be gone back to."""
    api_server.admin.patch(f"{POOLS}/{pool}", {"spec": _declares("old-1")})
    for name in ("d1", "d2"):
        _reports(api_server, name, _declares("old-1"))

    def proven() -> bool:
        status = api_server.admin.get(f"{POOLS}/{pool}").get("status", {})
        return [one["migConfig"] for one in status.get("provenLayouts", ())] == ["old-1"]

    api_server.wait(proven, "the pool has been verified with old-1")
    return pool


def _declares(layout: str) -> dict[str, str]:
    desired = json.dumps({"pool": "day2", "gpus": layout})
    digest = hashlib.sha256(desired.encode()).hexdigest()
    return {"migConfig": layout, "layoutHash": digest, "desiredState": desired}


def _cut(api_server: Any, name: str, layout: str) -> bool:
    """Whether the node has that label; then mig-manager has cut it."""
    labels = api_server.node(name).labels
    if labels.get("nvidia.com/mig.config") != layout:
        return False
    done = {"metadata": {"labels": {"nvidia.com/mig.config.state": "success"}}}
    api_server.admin.patch(f"/api/v1/nodes/{name}", done)
    return True


def _reports(api_server: Any, name: str, layout: Mapping[str, str]) -> None:
    """Its agent reports a match with that layout, later than any report that does not count."""
    node = api_server.admin.get(f"/api/v1/nodes/{name}")
    after = api_server.node(name).reports_after
    at = stamp(max(time.time(), after + 1))
    report = objects.report(node, "day2", observedHash=layout["layoutHash"], time=at)
    api_server.apply(REPORTS, report)


def _pools(api_server: Any) -> set[str]:
    """Those of other tests are there, too."""
    return {one["metadata"]["name"] for one in api_server.admin.get(POOLS)["items"]}


def _condition(api_server: Any, pool: str, kind: str = "Verified") -> str:
    """The reason of that condition of the pool; empty without one."""
    status = api_server.admin.get(f"{POOLS}/{pool}").get("status", {})
    found = [c["reason"] for c in status.get("conditions", []) if c["type"] == kind]
    return str(found[0]) if found else ""


def _asked(api_server: Any, pool: str) -> str:
    notes: Mapping[str, str] = api_server.admin.get(f"{POOLS}/{pool}")["metadata"].get(
        "annotations", {}
    )
    return notes.get(names.ROLLOUT_ANNOTATION, "")


def _held_rollout(api_server: Any) -> None:
    """A change that waits for a pod that nobody may evict."""
    api_server.make_pod("llm-0", "d1", namespace="default", gpus=1)
    api_server.admin.patch(f"{POOLS}/day2", {"spec": {"migConfig": "new-2"}})
    api_server.wait(
        lambda: (c := api_server.node("d1").condition) and c.reason == "ChangeHeldByPods",
        "the change waits for the pod",
    )
    # The pool's status is written after the node's: a command that reads between sees no cause.
    api_server.wait(
        lambda: _condition(api_server, "day2", "Degraded") == "NodesFailing",
        "the pool says so, too",
    )


class TestStatus:
    def test_a_pool_in_order_is_drawn_and_ends_with_0(self, say: Command, pool: str) -> None:
        said = say("status", pool)
        assert said.code == VERIFIED, said
        assert "pool day2  verified  2 of 2 nodes verified" in said.out
        assert f"4 x {A100}, each 7 x 1g.5gb: on d1, d2" in said.out
        assert "[1g.5gb]" in said.out, "the slices are drawn"
        assert "node d1" not in said.out, "a node in order needs no line"
        assert "node d1  verified" in say("status", pool, "--all").out

    def test_it_says_which_pod_holds_a_drain_and_what_to_do(
        self, say: Command, pool: str, api_server: Any
    ) -> None:
        _held_rollout(api_server)
        said = say("status", pool)
        assert said.code == DEGRADED, said
        assert "node d1  draining, cordoned" in said.out
        assert "pod default/llm-0: no controller would recreate it" in said.out
        assert "slicewright rollout abort day2" in said.out
        assert "order: d1, then d2" in said.out
        (shown,) = say("status", pool, "--json").json["pools"]
        assert shown["state"] == "degraded"
        assert shown["rollout"]["waves"] == [["d1"], ["d2"]]
        held = next(node for node in shown["members"] if node["name"] == "d1")
        assert (held["phase"], held["cordoned"]) == ("Draining", True)
        assert held["blockers"] == [
            {"pod": "default/llm-0", "why": "no controller would recreate it", "leaves": False}
        ]

    def test_status_first_reports_a_controller_that_does_not_run(
        self, say: Command, pool: str
    ) -> None:
        # The test's controller is a thread: the cluster has no Deployment of it.
        assert "note: the fleet controller does not run" in say("status").out

    def test_a_pool_that_is_not_there_is_named(self, say: Command, pool: str) -> None:
        said = say("status", "dya2")
        assert (said.code, said.out) == (BAD_INPUT, "")
        assert "has no pool dya2" in said.err

    def test_a_cluster_that_does_not_answer_is_one_line(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Any, api_server: Any
    ) -> None:
        config = json.loads(api_server.endpoint.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
        (tmp_path / "config").write_text(json.dumps(config))
        code = cli.main(["status", "--kubeconfig", str(tmp_path / "config")])
        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (CANNOT_RUN, "", 1)
        assert "(https://127.0.0.1:9) does not answer" in err


class TestRollout:
    def test_pause_resume_and_abort_are_obeyed(
        self, say: Command, pool: str, api_server: Any
    ) -> None:
        wait = api_server.wait
        _held_rollout(api_server)
        said = say("rollout", "pause", pool)
        assert said.code == VERIFIED, said
        assert "drained, stay cordoned: d1" in said.out
        wait(lambda: _condition(api_server, pool) == "RolloutPaused", "it is paused")
        assert say("rollout", "status", pool).code == NOT_VERIFIED
        assert "is already paused" in say("rollout", "pause", pool).out
        assert say("rollout", "resume", pool).code == VERIFIED
        assert _asked(api_server, pool) == ""
        wait(lambda: _condition(api_server, pool) != "RolloutPaused", "it goes on")
        said = say("rollout", "abort", pool)
        assert "back into service unchanged: d1" in said.out
        assert "the pool still declares layout new-2" in said.out
        wait(lambda: not api_server.node("d1").unschedulable, "d1 is in service again")
        assert _asked(api_server, pool) == "aborted"
        assert api_server.admin.get(f"{_PODS}/llm-0"), "nothing was evicted"

    def test_in_the_middle_of_a_roll_an_undo_goes_back_and_resume_forward_again(
        self, say: Command, undoable: str, api_server: Any
    ) -> None:
        """d1 has the new layout, and d2 is drained and held by a pod."""
        pool, wait = undoable, api_server.wait
        api_server.make_pod("llm-0", "d2", namespace="default", gpus=1)
        api_server.admin.patch(f"{POOLS}/{pool}", {"spec": _declares("new-2")})
        wait(lambda: _cut(api_server, "d1", "new-2"), "d1 has its new label")
        _reports(api_server, "d1", _declares("new-2"))
        wait(
            lambda: (c := api_server.node("d2").condition) and c.reason == "ChangeHeldByPods",
            "d1 is in service with the new layout, and d2 waits for the pod",
        )
        said = say("rollout", "undo", pool)
        assert said.code == VERIFIED, said
        assert "change back to old-1, a few at a time: d1" in said.out
        assert "back into service unchanged: d2" in said.out
        assert "the stack file still declares new-2" in said.out
        assert _asked(api_server, pool) == "undo:new-2"
        wait(
            lambda: (
                api_server.node("d2").desired_state_annotation == _declares("old-1")["desiredState"]
            ),
            "d2's agent is told to prove the layout that the node still has",
        )
        _reports(api_server, "d2", _declares("old-1"))
        wait(lambda: not api_server.node("d2").unschedulable, "d2 is in service again")
        wait(lambda: _cut(api_server, "d1", "old-1"), "d1 has the label of before")
        assert api_server.node("d1").desired_state_annotation == _declares("old-1")["desiredState"]
        assert _condition(api_server, pool) == "RollingOut"
        _reports(api_server, "d1", _declares("old-1"))
        wait(lambda: _condition(api_server, pool) == "RolloutUndone", "it is undone")
        wait(lambda: not api_server.node("d1").held, "d1 is in service again")
        assert not api_server.node("d1").unschedulable
        assert api_server.admin.get(f"{_PODS}/llm-0"), "nothing was evicted"
        status = say("status", pool)
        assert status.code == NOT_VERIFIED
        assert "pool day2  undone" in status.out
        assert "is already undone" in say("rollout", "undo", pool).out
        api_server.admin.patch(f"{POOLS}/{pool}", {"spec": _declares("old-1")})
        wait(lambda: _asked(api_server, pool) == "", "the stack file has the old layout: it ends")
        api_server.admin.patch(f"{POOLS}/{pool}", {"spec": _declares("new-2")})
        wait(lambda: _cut(api_server, "d1", "new-2"), "the next change to it is not undone")
        said = say("rollout", "undo", pool)
        assert said.code == VERIFIED, said
        said = say("rollout", "resume", pool)
        assert "changes to layout new-2" in said.out
        wait(lambda: _cut(api_server, "d1", "new-2"), "d1 changes forward again")
        assert api_server.node("d1").desired_state_annotation == "", (
            "its agent goes by its file again"
        )

    def test_what_cannot_be_undone_is_refused_and_nothing_is_written(
        self, say: Command, pool: str, api_server: Any
    ) -> None:
        """The pool is of a program that declared no desired state."""
        said = say("rollout", "undo", pool)
        assert (said.code, said.out) == (BAD_INPUT, "")
        assert "verified with no layout other than old-1" in said.err
        assert _asked(api_server, pool) == ""
        api_server.admin.patch(f"{POOLS}/{pool}", {"spec": {"migConfig": None}})
        said = say("rollout", "undo", pool)
        assert said.code == BAD_INPUT
        assert "another layout needs new nodes" in said.err

    def test_without_a_rollout_there_is_nothing_to_pause(
        self, say: Command, pool: str, api_server: Any
    ) -> None:
        said = say("rollout", "pause", pool)
        assert (said.code, said.out) == (BAD_INPUT, "")
        assert "has no rollout: no node waits for layout old-1" in said.err
        assert _asked(api_server, pool) == ""
        assert "nothing to resume" in say("rollout", "resume", pool).out
        assert say("rollout", "abort", "nosuch").code == BAD_INPUT

    def test_a_pool_that_changes_meanwhile_is_read_again(
        self, say: Command, pool: str, api_server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _held_rollout(api_server)
        tries = []

        class Overtaken(Client):
            def patch(self, path: str, body: Any, **more: Any) -> Any:
                tries.append(body["metadata"]["resourceVersion"])
                if len(tries) == 1:
                    other = {"metadata": {"labels": {"somebody": "else"}}}
                    api_server.admin.patch(f"{POOLS}/{pool}", other)
                return super().patch(path, body, **more)

        monkeypatch.setattr("slicewright.live.access.Client", Overtaken)
        assert say("rollout", "pause", pool).code == VERIFIED
        assert len(set(tries)) >= 2
        assert _asked(api_server, pool) == "paused"


def test_a_report_on_a_preview_names_nodes_and_pods(
    say: Command, pool: str, api_server: Any, tmp_path: Path
) -> None:
    """eks-a100's file wants one node of all-1g.5gb; the cluster has two of old-1, and a bare
    pod.
    """
    api_server.make_pod("llm-0", "d1", namespace="default", gpus=1)
    stack = tmp_path / "Pulumi.eks-a100.yaml"
    written = (ROOT / "stacks" / "Pulumi.eks-a100.yaml").read_text()
    stack.write_text(written.replace("name: demo-gpu-workers", f"name: {pool}"))
    (tmp_path / "preview.json").write_text('{"steps": []}')
    before = api_server.admin.get(f"{POOLS}/{pool}")["spec"]
    said = say("preview-report", "-s", str(stack), "--live", str(tmp_path / "preview.json"))
    assert said.code == VERIFIED, said
    assert "Pool `day2`: 2 nodes roll from `old-1` to" in said.out
    assert "1. `d1`\n2. `d2`" in said.out
    assert "0 pods are evicted, and 1 pod cannot be evicted now" in said.out
    assert "- on `d1`: `default/llm-0`: no controller would recreate it" in said.out
    assert "has 2 nodes and may have 1: the cloud ends 1 node of its choice" in said.out
    assert "0 to 1 pods with GPUs end with it" in said.out
    assert api_server.admin.get(f"{POOLS}/{pool}")["spec"] == before, "it only reads"
