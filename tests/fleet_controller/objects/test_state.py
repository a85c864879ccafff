"""What is read from the API server's objects, key by key."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.fleet_controller.objects.bounds import seconds, stamp
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.known_layouts import KnownLayout
from slicewright.fleet_controller.objects.node import BroughtLabel, Joined, Node, read_node
from slicewright.fleet_controller.objects.node_pods import requests_gpus
from slicewright.fleet_controller.objects.pool import Pool, obeying, read_pool
from slicewright.fleet_controller.objects.report import Report, read_report
from slicewright.fleet_controller.objects.warning_event import (
    WarningEvent,
    next_count,
    read_warning,
)

STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"


def _time(second: int) -> str:
    return f"2027-01-15T08:00:{second:02}Z"


def _at(second: int) -> float:
    return 1_800_000_000.0 + second


NODE: dict[str, Any] = {
    "metadata": {
        "name": "n1",
        "uid": "u1",
        "resourceVersion": "100",
        "creationTimestamp": _time(1),
        "labels": {"slicewright.io/pool": "halves"},
        "annotations": {"slicewright.io/verified-boot": "b0"},
    },
    "spec": {"taints": [{"key": "nvidia.com/gpu"}, {"key": STARTUP_TAINT}]},
    "status": {
        "nodeInfo": {"bootID": "b1"},
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady"},
            {
                "type": "slicewright.io/GPUPartitionsReady",
                "status": "False",
                "reason": "WrongLayout",
                "message": "GPU 3 …",
                "lastTransitionTime": _time(2),
                "lastHeartbeatTime": _time(3),
            },
        ],
    },
}
POOL: dict[str, Any] = {
    "metadata": {"name": "halves", "uid": "p1", "generation": 3, "creationTimestamp": _time(1)},
    "spec": {
        "selector": {"matchLabels": {"slicewright.io/pool": "halves"}},
        "layoutHash": "a" * 64,
        "expectedNodes": {"min": 2, "max": 5},
        "migConfig": "halves-1234",
    },
    "status": {
        "conditions": [
            {
                "type": "Verified",
                "status": "True",
                "reason": "AllNodesProven",
                "message": "2 nodes verified",
                "lastTransitionTime": _time(4),
                "observedGeneration": 2,
            }
        ]
    },
}
REPORT: dict[str, Any] = {
    "metadata": {
        "name": "n1",
        "ownerReferences": [
            {"kind": "Pod", "uid": "another-owner"},
            {"kind": "Node", "uid": "u1"},
            {"kind": "Node", "uid": "u2"},
        ],
    },
    "report": {
        "verdict": "Match",
        "reason": "PartitionsMatch",
        "message": "2 GPUs as wanted.",
        "pool": "halves",
        "observedHash": "a" * 64,
        "bootID": "b1",
        "time": _time(5),
        "driver": "580.95",
    },
}


def _without(raw: dict[str, Any], *path: str) -> dict[str, Any]:
    """A copy without one key."""
    first, *rest = path
    if not rest:
        return {key: value for key, value in raw.items() if key != first}
    return {**raw, first: _without(raw[first], *rest)}


def _with(raw: dict[str, Any], part: str, **keys: Any) -> dict[str, Any]:
    """A copy with other keys in one part of it."""
    return {**raw, part: {**raw[part], **keys}}


def _joined(note: str | None) -> Joined | None:
    """What a node's note says that was brought to it."""
    notes = {} if note is None else {"slicewright.io/joined": note}
    return read_node(_with(NODE, "metadata", annotations=notes)).joined


class TestNode:
    def test_a_cordon_and_the_note_of_a_change_are_read(self) -> None:
        notes = {**NODE["metadata"].get("annotations", {}), "slicewright.io/layout-change": "{}"}
        raw = {
            **NODE,
            "metadata": {**NODE["metadata"], "annotations": notes},
            "spec": {**NODE["spec"], "unschedulable": True},
        }
        node = read_node(raw)
        assert (node.unschedulable, node.change) == (True, "{}")
        plain = read_node(NODE)
        assert (plain.unschedulable, plain.change) == (False, "")

    def test_every_field_is_read(self) -> None:
        assert read_node(NODE) == Node(
            name="n1",
            uid="u1",
            version="100",
            created=_at(1),
            boot_id="b1",
            verified_boot="b0",
            ready=True,
            labels={"slicewright.io/pool": "halves"},
            taint_keys=("nvidia.com/gpu", STARTUP_TAINT),
            condition=Condition(
                status="False",
                reason="WrongLayout",
                message="GPU 3 …",
                changed=_at(2),
                written=_at(3),
                generation=0,
            ),
            leaving=False,
        )

    def test_a_bare_node_is_read(self) -> None:
        assert read_node({"metadata": {"name": "n1", "uid": "u1"}}) == Node(
            name="n1",
            uid="u1",
            version="",
            created=0.0,
            boot_id="",
            verified_boot="",
            ready=False,
            labels={},
            taint_keys=(),
            condition=None,
            leaving=False,
            has_annotations=False,
        )

    @pytest.mark.parametrize(
        ("path", "field", "empty"),
        [
            (("metadata", "resourceVersion"), "version", ""),
            (("metadata", "creationTimestamp"), "created", 0.0),
            (("metadata", "labels"), "labels", {}),
            (("spec", "taints"), "taint_keys", ()),
            (("spec",), "taint_keys", ()),
            (("status", "nodeInfo", "bootID"), "boot_id", ""),
            (("status", "nodeInfo"), "boot_id", ""),
        ],
    )
    def test_one_missing_key_leaves_the_rest(
        self, path: tuple[str, ...], field: str, empty: object
    ) -> None:
        assert read_node(_without(NODE, *path)) == replace(read_node(NODE), **{field: empty})  # type: ignore[arg-type]

    def test_a_node_without_annotations_was_never_verified(self) -> None:
        plain = read_node(_without(NODE, "metadata", "annotations"))
        assert plain == replace(read_node(NODE), verified_boot="", has_annotations=False)

    def test_the_note_on_pods_with_gpus_is_read(self) -> None:
        annotations = {"slicewright.io/gpu-pods": "3"}
        noted = read_node({"metadata": {"name": "n1", "uid": "u1", "annotations": annotations}})
        assert (noted.gpu_pods, noted.has_annotations) == ("3", True)

    def test_a_node_without_conditions_is_not_ready_and_has_no_verdict(self) -> None:
        bare = read_node(_without(NODE, "status", "conditions"))
        assert bare == replace(read_node(NODE), condition=None, ready=False)

    @pytest.mark.parametrize(
        ("status", "ready"), [("True", True), ("False", False), ("Unknown", False)]
    )
    def test_only_true_is_ready(self, status: str, ready: bool) -> None:
        conditions = [
            {"type": "DiskPressure", "status": "True"},
            {"type": "Ready", "status": status},
        ]
        assert read_node({**NODE, "status": {"conditions": conditions}}).ready is ready

    def test_a_deletion_timestamp_means_that_the_node_is_being_deleted(self) -> None:
        meta = {**NODE["metadata"], "deletionTimestamp": _time(9)}
        assert read_node({**NODE, "metadata": meta}).leaving

    @pytest.mark.parametrize(
        ("heartbeat", "written"), [(_time(3), _at(3)), (_time(1), _at(2)), (None, _at(2))]
    )
    def test_a_condition_was_written_at_its_newest_time(
        self, heartbeat: str | None, written: float
    ) -> None:
        condition = {**NODE["status"]["conditions"][1], "lastHeartbeatTime": heartbeat}
        found = read_node({**NODE, "status": {"conditions": [condition]}}).condition
        assert found is not None
        assert (found.changed, found.written) == (_at(2), written)

    def test_a_bare_condition_is_unknown(self) -> None:
        conditions = [{"type": "slicewright.io/GPUPartitionsReady"}]
        assert read_node({**NODE, "status": {"conditions": conditions}}).condition == Condition(
            status="Unknown", reason="", message="", changed=0.0, written=0.0
        )
        assert Condition(status="", reason="", message="", changed=0, written=0).generation == 0

    def test_zone_of_a_node_is_read_from_its_label(self) -> None:
        labels = {"topology.kubernetes.io/zone": "us-east5-a"}
        assert read_node(_with(NODE, "metadata", labels=labels)).zone == "us-east5-a"
        assert read_node(NODE).zone == ""

    def test_node_is_quarantined_by_the_startup_taint_with_no_execute(self) -> None:
        taints = [
            {"key": "nvidia.com/gpu", "effect": "NoExecute"},
            {"key": STARTUP_TAINT, "effect": "NoSchedule"},
            {"key": STARTUP_TAINT, "effect": "NoExecute"},
        ]
        assert read_node(_with(NODE, "spec", taints=taints)).quarantine_at == 2
        assert read_node(_with(NODE, "spec", taints=taints[:2])).quarantine_at is None

    def test_what_was_brought_to_it_is_written_in_order_and_read_again(self) -> None:
        joined = Joined(
            pool="halves",
            labels={
                "b": BroughtLabel(value="2", before=None),
                "a": BroughtLabel(value="1", before="0"),
            },
        )
        note = (
            '{"pool":"halves","labels":{"a":{"value":"1","before":"0"},'
            '"b":{"value":"2","before":null}}}'
        )
        assert joined.dump() == note
        assert _joined(note) == joined
        assert _joined(None) is None

    def test_a_note_cannot_bring_the_labels_of_mig_manager(self) -> None:
        brought = {"value": "all-1g.5gb", "before": None}
        labels = {"nvidia.com/mig.config": brought, "nvidia.com/mig.config.state": brought}
        joined = _joined(json.dumps({"pool": "halves", "labels": labels}))
        assert joined == Joined(pool="halves", labels={})

    def test_what_is_no_node_is_an_error(self) -> None:
        with pytest.raises(KeyError):
            read_node({"metadata": {"name": "n1"}})
        with pytest.raises(KeyError):
            read_node({})

    def test_the_startup_taint_holds_the_node(self) -> None:
        assert read_node(NODE).held
        assert not read_node(_without(NODE, "spec")).held

    def test_mig_managers_labels_are_found(self) -> None:
        labels = {
            "nvidia.com/mig.config": "halves-1234",
            "nvidia.com/mig.config.state": "pending",
            "nvidia.com/gpu.deploy.mig-manager": "true",
            "nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change",
            "nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change",
            "example.com/other": "paused",
        }
        node = replace(read_node(NODE), labels=labels)
        assert (node.mig_config, node.mig_state) == ("halves-1234", "pending")
        assert node.paused == ("dcgm", "device-plugin")
        bare = replace(node, labels={})
        assert (bare.mig_config, bare.mig_state, bare.paused) == (None, None, ())


class TestReport:
    def test_every_field_is_read(self) -> None:
        assert read_report(REPORT) == Report(
            name="n1",
            owner_uid="u1",
            verdict="Match",
            reason="PartitionsMatch",
            message="2 GPUs as wanted.",
            pool="halves",
            layout_hash="a" * 64,
            boot_id="b1",
            time=_at(5),
            driver="580.95",
        )

    @pytest.mark.parametrize("raw", [{}, {"report": None}, {"report": {}}])
    def test_an_empty_report_has_empty_fields(self, raw: dict[str, Any]) -> None:
        assert read_report({"metadata": {"name": "n1"}, **raw}) == Report(
            name="n1",
            owner_uid="",
            verdict="",
            reason="",
            message="",
            pool="",
            layout_hash="",
            boot_id="",
            time=0.0,
        )

    @pytest.mark.parametrize("owners", [None, [], [{"kind": "Pod", "uid": "u1"}], [{"uid": "u1"}]])
    def test_only_a_node_counts_as_its_owner(self, owners: list[dict[str, str]] | None) -> None:
        metadata = {"name": "n1", "ownerReferences": owners}
        assert read_report({**REPORT, "metadata": metadata}).owner_uid == ""


class TestPool:
    def test_every_field_is_read(self) -> None:
        assert read_pool(POOL) == Pool(
            name="halves",
            uid="p1",
            generation=3,
            created=_at(1),
            selector={"slicewright.io/pool": "halves"},
            layout_hash="a" * 64,
            fewest=2,
            mig_config="halves-1234",
            status=POOL["status"],
            declared=KnownLayout(mig_config="halves-1234", layout_hash="a" * 64, desired=""),
        )

    def test_every_field_of_a_pool_of_existing_nodes_that_is_deleted_is_read(self) -> None:
        existing = {"labels": {"a": "1"}, "migLayoutOnRelease": "Disable"}
        raw = _with(
            _with(POOL, "spec", existingNodes=existing, rolloutPolicy={"canary": 2}),
            "metadata",
            resourceVersion="7",
            deletionTimestamp=_time(9),
            finalizers=["slicewright.io/release"],
        )
        assert read_pool(raw) == replace(
            read_pool(POOL),
            brings={"a": "1"},
            disables_mig=True,
            policy=RolloutPolicy(canary=2),
            version="7",
            leaving=True,
            finalizers=("slicewright.io/release",),
        )
        kept = {**existing, "migLayoutOnRelease": "Keep"}
        assert read_pool(_with(POOL, "spec", existingNodes=kept)).disables_mig is False

    def test_pool_without_a_mig_layout_is_read_with_its_hash(self) -> None:
        native = read_pool(_with(POOL, "spec", migConfig=None))
        assert (native.layout_hash, native.declared, native.no_undo) == ("a" * 64, None, "")

    @pytest.mark.parametrize("layout", [None, "halves-1234"])
    @pytest.mark.parametrize(
        ("annotation", "suspended"), [("paused", "paused"), ("aborted", "aborted"), ("later", "")]
    )
    def test_annotation_of_a_pool_suspends_its_rollout(
        self, annotation: str, suspended: str, layout: str | None
    ) -> None:
        notes = {"slicewright.io/rollout": annotation}
        raw = _with(_with(POOL, "spec", migConfig=layout), "metadata", annotations=notes)
        assert read_pool(raw).suspended == suspended

    def test_an_undo_that_cannot_be_leaves_an_aborted_rollout_aborted(self) -> None:
        asked = obeying(read_pool(POOL), "undo:halves-1234,aborted")
        assert (asked.suspended, bool(asked.no_undo)) == ("aborted", True)
        assert obeying(asked, "").no_undo == ""

    @pytest.mark.parametrize(
        ("asked", "left"),
        [
            ("undo:thirds-9", ""),
            ("undo:thirds-9,paused", "paused"),
            ("undo:halves-1234", None),
            ("paused", None),
            ("later", None),
            ("", None),
        ],
    )
    def test_an_undo_of_another_layout_than_is_declared_has_ended(
        self, asked: str, left: str | None
    ) -> None:
        assert obeying(read_pool(POOL), asked).request_after_undo == left
        native = read_pool(_with(POOL, "spec", migConfig=None))
        assert obeying(native, asked).request_after_undo is None

    @pytest.mark.parametrize(
        ("spec", "driver"),
        [({"driverVersion": "580.95"}, "580.95"), ({"driverVersion": ""}, None), ({}, None)],
    )
    def test_driver_of_a_pool_is_read_from_its_spec(
        self, spec: dict[str, str], driver: str | None
    ) -> None:
        assert read_pool(_with(POOL, "spec", **spec)).driver == driver

    def test_a_new_pool_has_no_status_yet(self) -> None:
        bare = read_pool(_without(_without(POOL, "status"), "metadata", "generation"))
        assert (bare.status, bare.generation) == ({}, 1)

    @pytest.mark.parametrize("value", [None, ""])
    def test_no_mig_config_is_none(self, value: str | None) -> None:
        assert read_pool({**POOL, "spec": {**POOL["spec"], "migConfig": value}}).mig_config is None

    def test_pool_conditions_carry_the_generation(self) -> None:
        assert read_pool(POOL).condition("Verified") == Condition(
            status="True",
            reason="AllNodesProven",
            message="2 nodes verified",
            changed=_at(4),
            written=_at(4),
            generation=2,
        )
        assert read_pool(POOL).condition("Degraded") is None

    @pytest.mark.parametrize(
        ("selector", "selected"),
        [
            ({"a": "1"}, True),
            ({"a": "1", "b": "2"}, True),
            ({"a": "1", "b": "3"}, False),
            ({"c": "1"}, False),
            ({}, False),
        ],
    )
    def test_a_node_is_selected_by_all_of_the_labels(
        self, selector: dict[str, str], selected: bool
    ) -> None:
        pool = replace(read_pool(POOL), selector=selector)
        assert pool.selects(replace(read_node(NODE), labels={"a": "1", "b": "2"})) is selected


class TestWarningEvent:
    @pytest.mark.parametrize(
        ("times", "last_seen"),
        [
            ({"firstTimestamp": _time(1), "lastTimestamp": _time(2)}, _at(2)),
            ({"firstTimestamp": _time(1), "lastTimestamp": None}, _at(1)),
            ({"lastTimestamp": _time(2)}, _at(2)),
            ({}, 0.0),
        ],
    )
    def test_last_timestamp_of_an_event_is_read(
        self, times: dict[str, str], last_seen: float
    ) -> None:
        raw = {**_event(f"halves.{'0' * 16}"), **times}
        assert read_warning(raw) == WarningEvent(name=f"halves.{'0' * 16}", last_seen=last_seen)

    @pytest.mark.parametrize(
        ("reason", "message", "progress"),
        [
            ("NotYetVerified", "after 10 s: n1 NoReport: no pod", "n1 NoReport: no pod"),
            ("NotYetVerified", "after 10 s: " + "x" * 1012, "x" * 900),
            ("NotYetVerified", "no cause", ""),
            ("WrongLayout", "node n1: GPU 0: wrong", ""),
        ],
    )
    def test_cause_of_progress_is_read(self, reason: str, message: str, progress: str) -> None:
        raw = {**_event(f"halves.{'0' * 16}"), "reason": reason, "message": message}
        warning = read_warning(raw)
        assert warning is not None
        assert warning.progress == progress

    @pytest.mark.parametrize(
        "name", ["halves.1", f"other.{'0' * 16}", f"halves.{'0' * 17}", f"halves.{'G' * 16}"]
    )
    def test_an_event_of_somebody_else_is_skipped(self, name: str) -> None:
        assert read_warning({**_event(name), "lastTimestamp": _time(1)}) is None

    @pytest.mark.parametrize(
        ("count", "following"), [(None, 2), (1, 2), (2**31 - 1, 2**31 - 1), ("x", 2)]
    )
    def test_the_count_of_an_event_stays_an_int32(self, count: object, following: int) -> None:
        assert next_count({"count": count}) == following


def _event(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "involvedObject": {"name": "halves"}}


class TestPods:
    @pytest.mark.parametrize(
        ("requests", "expected"),
        [
            ({"nvidia.com/gpu": "1"}, True),
            ({"nvidia.com/mig-1g.10gb": "2"}, True),
            ({"cpu": "1", "nvidia.com/gpu.shared": 1}, True),
            ({"nvidia.com/gpu": "0"}, False),
            ({"nvidia.com/gpu": 0}, False),
            ({"cpu": "1", "amd.com/gpu": "1"}, False),
            ({}, False),
            (None, False),
        ],
    )
    @pytest.mark.parametrize("kind", ["containers", "initContainers"])
    def test_a_gpu_request_is_one_of_nvidias_resources_that_is_not_0(
        self, requests: dict[str, Any] | None, expected: bool, kind: str
    ) -> None:
        spec = {kind: [{"name": "sidecar"}, {"name": "c", "resources": {"requests": requests}}]}
        assert requests_gpus({"spec": spec}) is expected

    @pytest.mark.parametrize("spec", [{}, {"containers": None}, {"containers": [{}]}])
    def test_a_pod_without_resources_requests_none(self, spec: dict[str, Any]) -> None:
        assert not requests_gpus({"spec": spec})


def test_times_are_seconds_since_the_epoch() -> None:
    assert seconds("2027-01-15T08:00:00Z") == 1_800_000_000.0
    assert seconds("2027-01-15T10:00:00+02:00") == 1_800_000_000.0
    assert (seconds(None), seconds("")) == (0.0, 0.0)
    assert stamp(1_800_000_000.9) == "2027-01-15T08:00:00Z"


def test_timestamps_are_utc_whatever_the_hosts_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    stamp.cache_clear()
    try:
        assert stamp(1_800_000_000.0) == "2027-01-15T08:00:00Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_is_no_time_is_an_error() -> None:
    with pytest.raises(ValueError, match="Invalid isoformat"):
        seconds("yesterday")
