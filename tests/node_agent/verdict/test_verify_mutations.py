"""Details of a verdict that the cases per reason leave open; found by `make mutate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu, DesiredSharing
from slicewright.apis.layout import GpuLayout, Layout, parse
from slicewright.apis.reasons.agent import REASONS
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import (
    Engines,
    Failure,
    GpuInstance,
    MigDevice,
    Observation,
    ObservedGpu,
    OfferedProfile,
    Xid,
)
from slicewright.node_agent.verdict.findings import Check, Verdict
from slicewright.node_agent.verdict.instances import describe_instances
from slicewright.node_agent.verdict.judge import replace_reason
from slicewright.node_agent.verdict.verify import (
    desired_of,
    partitioning_in_progress,
    verify,
    verify_layout,
)

Make = Callable[[int], MigDevice]


def _with(observation: Observation, index: int, **facts: object) -> Observation:
    gpus = list(observation.gpus)
    gpus[index] = replace(gpus[index], **facts)  # type: ignore[arg-type]
    return replace(observation, gpus=tuple(gpus))


def _problems(verdict: Verdict) -> list[tuple[str, str, str, str]]:
    return [
        (c.reason, c.where, c.expected, c.observed)
        for c in verdict.checks
        if c.reason != "PartitionsMatch"
    ]


class TestNode:
    @pytest.mark.parametrize(
        ("driver", "problems"),
        [
            ("550.90.07", []),
            ("550.90.06", [("DriverTooOld", "550.90.06")]),
            ("550.91", []),
            (None, [("DriverTooOld", "unknown")]),
        ],
    )
    def test_a_driver_exactly_at_the_minimum_is_new_enough(
        self,
        driver: str | None,
        problems: list[tuple[str, str]],
        desired: Desired,
        right: Observation,
        node: NodeState,
    ) -> None:
        wanted = replace(desired, minimum_driver="550.90.07")
        verdict = verify(wanted, replace(right, driver=driver), node)
        assert _problems(verdict) == [
            (reason, "node", "driver 550.90.07 or newer", f"driver {found}")
            for reason, found in problems
        ]

    def test_match_lists_every_comparison(
        self, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        verdict = verify(desired, right, node)
        assert verdict.instances == ({"3g.40gb": 2}, {"3g.40gb": 2})
        assert {c.verdict for c in verdict.checks} == {"Match"}
        assert [c.where for c in verdict.checks] == [
            "node",
            "GPU 0",
            "GPU 0",
            "GPU 1",
            "GPU 1",
            "nvidia.com/gpu",
        ]

    def test_resources_are_in_the_order_of_their_names(
        self, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        surplus = {**node.allocatable, "nvidia.com/mig-b": 1, "nvidia.com/mig-a": 1}
        verdict = verify(desired, right, replace(node, allocatable=surplus))
        assert [p[1] for p in _problems(verdict)] == ["nvidia.com/mig-a", "nvidia.com/mig-b"]
        wanted = replace(desired, resources={"nvidia.com/b": 1, "nvidia.com/a": 2})
        there = {"nvidia.com/b": 1, "nvidia.com/a": 2}
        match = verify(wanted, right, replace(node, capacity=there, allocatable=there))
        assert match.message.endswith("; advertised: nvidia.com/a 2, nvidia.com/b 1.")
        missing = verify(wanted, right, replace(node, capacity={}, allocatable={}))
        assert [p[1] for p in _problems(missing)] == ["nvidia.com/a", "nvidia.com/b"]
        unreadable = verify(wanted, right, None)
        assert _problems(unreadable)[0][1:3] == ("node", "nvidia.com/a 2, nvidia.com/b 1")

    def test_a_match_without_resources_mentions_none(
        self, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        bare = replace(desired, resources={})
        verdict = verify(bare, right, replace(node, capacity={}, allocatable={}))
        assert verdict.message == "2 GPUs as wanted (3g.40gb x2)."

    def test_a_match_lists_every_layout_once_in_order(
        self, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        memory = {1: 9984, 2: 20096, 3: 40448, 4: 40448}
        layouts = ((4, 3), (), (2, 2, 2), (3, 3), (1,) * 7, (3, 3), ())
        names = {1: "1g.10gb", 2: "2g.20gb", 3: "3g.40gb", 4: "4g.40gb"}
        half = right.gpus[0].devices[0]
        seen = tuple(
            replace(
                right.gpus[0],
                index=index,
                mig="enabled" if slices else "disabled",
                mig_pending="enabled" if slices else "disabled",
                devices=tuple(
                    replace(half, gpu_slices=n, compute_slices=n, memory_mib=memory[n], name="")
                    for n in slices
                ),
            )
            for index, slices in enumerate(layouts)
        )
        wanted = tuple(
            DesiredGpu(index=index, mig=bool(slices), instances=Counter(names[n] for n in slices))
            for index, slices in enumerate(layouts)
        )
        verdict = verify(
            replace(desired, gpu_count=len(wanted), gpus=wanted), replace(right, gpus=seen), node
        )
        assert verdict.message.startswith(
            "7 GPUs as wanted (1g.10gb x7; 2g.20gb x3; 3g.40gb x1, 4g.40gb x1; 3g.40gb x2; whole);"
        )
        assert list(verdict.instances[0]) == ["3g.40gb", "4g.40gb"]

    def test_gpu_that_reports_no_memory_gets_the_pools(
        self, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        """Without profile names, a size says which profile it is only with the total."""
        for index in range(2):
            devices = tuple(replace(d, name="") for d in right.gpus[index].devices)
            right = _with(right, index, memory_mib=None, devices=devices)
        assert verify(desired, right, node).reason == "ProfileUnclear"
        assert verify(replace(desired, gpu_memory_mib=81559), right, node).verdict == "Match"

    @pytest.mark.parametrize("state", ["pending", "rebooting"])
    def test_while_mig_manager_works_the_only_finding_is_its_label(
        self, state: str, desired: Desired, node: NodeState
    ) -> None:
        verdict = partitioning_in_progress(
            replace(desired, partitioner="mig-manager", gpu_count=1), replace(node, mig_state=state)
        )
        assert verdict is not None
        found = f"nvidia.com/mig.config.state {state}"
        assert _problems(verdict) == [("PartitioningUnderWay", "node", "1 GPU", found)]
        assert verdict.instances == ()

    @pytest.mark.parametrize(
        ("capacity", "allocatable", "reason", "found"),
        [
            (3, 4, "WrongResources", "4 allocatable of 3"),
            (0, 4, "WrongResources", "4 allocatable of 0"),
            (3, 0, "WrongResources", "0 allocatable of 3"),
            (4, 0, "ResourcesWithheld", "0 allocatable of 4"),
            (0, 0, "ResourcesNotAdvertised", "0"),
        ],
    )
    def test_capacity_and_allocatable_are_both_compared(
        self,
        capacity: int,
        allocatable: int,
        reason: str,
        found: str,
        desired: Desired,
        right: Observation,
        node: NodeState,
    ) -> None:
        state = replace(
            node,
            capacity={"nvidia.com/gpu": capacity},
            allocatable={"nvidia.com/gpu": allocatable},
        )
        assert _problems(verify(desired, right, state)) == [(reason, "nvidia.com/gpu", "4", found)]

    @pytest.mark.parametrize(
        "name", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb.shared"]
    )
    def test_an_unwanted_resource_is_unexpected(
        self, name: str, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        there = {"nvidia.com/gpu": 4, name: 1}
        verdict = verify(desired, right, replace(node, capacity=there, allocatable=there))
        assert _problems(verdict) == [("UnexpectedResources", name, "0", "1")]

    @pytest.mark.parametrize(
        ("resource", "count", "shared"),
        [("nvidia.com/gpu", 4, True), ("nvidia.com/gpu", 5, False), ("nvidia.com/other", 4, False)],
    )
    def test_missing_sharing_is_the_cause_only_if_the_counts_agree(
        self,
        resource: str,
        count: int,
        shared: bool,
        desired: Desired,
        right: Observation,
        node: NodeState,
    ) -> None:
        wanted = replace(
            desired,
            resources={"nvidia.com/gpu": 16, "nvidia.com/other": 16},
            sharing=(DesiredSharing(resource=resource, strategy="mps", replicas=4),),
        )
        there = {"nvidia.com/gpu": count, "nvidia.com/other": 5}
        verdict = verify(wanted, right, replace(node, capacity=there, allocatable=there))
        assert ("does not share its devices" in verdict.message) is shared
        assert ("has not enumerated the GPUs again" in verdict.message) is not shared


class TestGpu:
    @pytest.mark.parametrize(
        ("known", "unknown", "reason"),
        [
            (2, 0, None),
            (2, 1, "WrongLayout"),
            (1, 1, "ProfileUnclear"),
            (1, 0, "LayoutIncomplete"),
            (0, 0, "NotPartitioned"),
            (3, 0, "WrongLayout"),
        ],
    )
    def test_partitions_are_counted_whether_or_not_their_profile_is_known(
        self,
        known: int,
        unknown: int,
        reason: str | None,
        desired: Desired,
        right: Observation,
        node: NodeState,
        half: Make,
    ) -> None:
        devices = [half(i) for i in range(known)]
        devices += [replace(half(9), gpu_slices=1, name="") for _ in range(unknown)]
        seen = _with(right, 1, devices=tuple(devices), memory_mib=None)
        verdict = verify(desired, seen, node)
        assert [p[:2] for p in _problems(verdict)] == ([(reason, "GPU 1")] if reason else [])

    @pytest.mark.parametrize(
        ("facts", "want_mig", "reason", "found"),
        [
            ({"mig": "unknown", "mig_pending": "unknown"}, True, "DriverError", "no answer"),
            ({"mig": "disabled", "mig_pending": "disabled"}, True, "NotPartitioned", "no MIG"),
            ({"mig": "enabled", "devices": ()}, True, "NotPartitioned", "MIG on without any"),
            ({"mig": "disabled", "mig_pending": "enabled"}, False, "MigModePending", "then on"),
            ({"mig": "enabled", "mig_pending": "disabled"}, True, "MigModePending", "then off"),
            ({"mig": "disabled", "mig_pending": "unknown"}, False, None, ""),
            ({"mig": "unsupported", "mig_pending": "unsupported"}, False, None, ""),
            ({"mig": "unsupported", "mig_pending": "unsupported"}, True, "MigUnsupported", "a GPU"),
        ],
    )
    def test_mig_mode(
        self,
        facts: Mapping[str, object],
        want_mig: bool,
        reason: str | None,
        found: str,
        desired: Desired,
        right: Observation,
        node: NodeState,
    ) -> None:
        entry = DesiredGpu(index=0, mig=want_mig, instances={"3g.40gb": 2} if want_mig else {})
        gpus = (entry, replace(desired.gpus[0], index=1))
        facts = {"devices": (), **facts}
        verdict = verify(replace(desired, gpus=gpus), _with(right, 0, **facts), node)
        assert [p[0] for p in _problems(verdict)] == ([reason] if reason else [])
        if reason:
            assert found in _problems(verdict)[0][3]

    @pytest.mark.parametrize(("number", "reason"), [(79, "GpuLost"), (62, "GpuResetRequired")])
    def test_an_xid_that_stands_is_a_finding(
        self, number: int, reason: str, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        seen = _with(right, 1, stands=Xid(number=number, at_s=1.0, text=""))
        (problem,) = _problems(verify(desired, seen, node))
        assert problem[:3] == (reason, "GPU 1", "no error that needs a reset")
        assert problem[3].startswith(f"Xid {number} (")

    @pytest.mark.parametrize(
        ("repairs", "problems"),
        [
            (("action 9",), [("GpuResetRequested", "the driver asks for recovery action 9")]),
            (("reboot the node",), [("GpuResetRequested", "the driver asks to reboot the node")]),
            (
                ("retirement pending", "remap pending"),
                [
                    (
                        "GpuResetRequested",
                        "a page retirement that waits for a reset, "
                        "a row remapping that waits for a reset",
                    )
                ],
            ),
            (
                ("remap failed", "drain and reset"),
                [
                    ("RowRemapFailed", "a bad memory row without a spare row"),
                    ("GpuResetRequested", "the driver asks to drain and reset"),
                ],
            ),
        ],
    )
    def test_a_repair_that_the_driver_asks_for_is_a_finding(
        self,
        repairs: tuple[str, ...],
        problems: list[tuple[str, str]],
        desired: Desired,
        right: Observation,
        node: NodeState,
    ) -> None:
        verdict = verify(desired, _with(right, 1, repairs=repairs), node)
        assert _problems(verdict) == [
            (reason, "GPU 1", "no repair requested", found) for reason, found in problems
        ]

    def test_an_xid_is_named_with_a_failure(
        self, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        failure = Failure(call="nvmlDeviceGetMigMode", code=15, text="GPU is lost")
        seen = _with(right, 1, failure=failure, stands=Xid(number=79, at_s=1.0, text=""))
        (problem,) = _problems(verify(desired, seen, node))
        assert problem[:3] == ("GpuLost", "GPU 1", "3g.40gb x2")
        assert problem[3].startswith("nvmlDeviceGetMigMode: GPU is lost, after Xid 79 (")
        probe = _with(right, 1, failure=replace(failure, call="probe"))
        assert _problems(verify(desired, probe, node))[0][3] == "GPU is lost"

    def test_a_gpu_without_a_name_is_the_wrong_model(
        self, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        wanted = replace(desired, gpu_models=("NVIDIA B", "NVIDIA A"))
        nameless = _with(_with(right, 0, model=None), 1, model="A")
        assert _problems(verify(wanted, nameless, node)) == [
            ("WrongGpuModel", "GPU 0", "NVIDIA A or NVIDIA B", "no name")
        ]

    def test_compute_instances_are_checked_only_if_mig_is_expected(
        self, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        instances = tuple(GpuInstance(id=i, profile=9, start=0, size=4) for i in (1, 2))
        verdict = verify(desired, _with(right, 0, gpu_instances=instances), node)
        assert verdict.verdict == "Match"
        wanted = "a compute instance in every GPU instance"
        assert [c.observed for c in verdict.checks if c.expected == wanted] == ["all"]
        whole = replace(desired, gpus=(DesiredGpu(index="all", mig=False),))
        checks = verify(whole, _with(right, 0, gpu_instances=instances), node).checks
        assert wanted not in {c.expected for c in checks}


class TestMessage:
    @pytest.mark.parametrize(("extra", "cut"), [(0, False), (1, True)])
    def test_message_has_at_most_700_characters(
        self, extra: int, cut: bool, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        def message(length: int) -> str:
            return verify(desired, _with(right, 0, model="x" * length), node).message

        length = 700 - len(message(0)) + len("no name") + extra
        text = message(length)
        assert len(text) == 700
        assert text.endswith("…") is cut
        assert ("…" in text) is cut

    def test_another_reason_brings_its_own_verdict_and_its_advice_for_a_node_of_a_cluster(
        self, desired: Desired, right: Observation
    ) -> None:
        unknown = verify(desired, right, None)
        assert (unknown.verdict, unknown.reason) == ("Unknown", "NodeUnreadable")
        said = replace_reason(unknown, "MigModePending", desired)
        assert (said.verdict, said.reason) == ("Mismatch", "MigModePending")
        reason = REASONS["MigModePending"]
        assert reason.advice in said.message
        assert reason.advices["host"] not in said.message

    def test_other_reasons_follow_by_rank(
        self, desired: Desired, right: Observation, node: NodeState
    ) -> None:
        wanted = replace(desired, minimum_driver="560.1")
        seen = _with(right, 0, model="NVIDIA L4", mig="unsupported", mig_pending="unsupported")
        verdict = verify(wanted, replace(seen, gpus=seen.gpus[:1]), node)
        assert verdict.reason == "WrongGpuCount"
        assert "Also: WrongGpuModel, DriverTooOld, MigUnsupported." in verdict.message
        assert verdict.message.startswith("node wanted 2 GPUs, found 1 GPU: ")

    @pytest.mark.parametrize(
        ("wrong", "where"),
        [
            ([3], "GPU 3"),
            ([0, 1], "GPUs 0-1"),
            ([0, 1, 2, 5], "GPUs 0-2, 5"),
            ([0, 2, 3], "GPUs 0, 2-3"),
            ([0, 2], "GPUs 0, 2"),
        ],
    )
    def test_gpus_with_the_same_finding_are_ranges(
        self, wrong: list[int], where: str, desired: Desired, right: Observation
    ) -> None:
        gpus = tuple(
            replace(right.gpus[0], index=i, model="x" if i in wrong else right.gpus[0].model)
            for i in range(6)
        )
        seen = replace(right, gpus=tuple(reversed(gpus)))
        verdict = verify(replace(desired, gpu_count=6), seen, None, silicon_only=True)
        assert verdict.message.startswith(f"{where} wanted ")

    def test_partitions_are_in_the_order_of_their_names(self) -> None:
        assert describe_instances({"3g.40gb": 1, "1g.10gb": 2}) == "1g.10gb x2, 3g.40gb x1"
        assert describe_instances({}) == "no partition"


def _offered(number: int, slices: int, memory_mib: int) -> OfferedProfile:
    return OfferedProfile(
        id=number,
        name=None,
        suffix="",
        slices=slices,
        memory_mib=memory_mib,
        multiprocessors=16 * slices,
        engines=Engines(decoders=slices, encoders=0, jpeg=slices, ofa=0),
    )


class TestLayout:
    """Layouts of a host."""

    @pytest.fixture
    def seen(self, right: Observation) -> Observation:
        instances = (
            GpuInstance(id=1, profile=9, start=4, size=4),
            GpuInstance(id=2, profile=9, start=0, size=4),
        )
        offered = (_offered(9, 3, 40448), _offered(19, 1, 9984))
        for index in range(2):
            right = _with(right, index, gpu_instances=instances, offered=offered)
        return right

    def _verdict(self, text: str, seen: Observation) -> Verdict:
        layout = parse([text])
        wanted: Mapping[int, GpuLayout] = layout.resolve({g.index: g.uuid or "" for g in seen.gpus})
        return verify_layout(layout, wanted, seen)

    @pytest.mark.parametrize(
        "text", ["all:3g.40gb*2", "all:9*2", "1:3g.40gb@0,3g.40gb@4", "0:9@4,9@0", "1:3c.3g.40gb*2"]
    )
    def test_a_layout_matches_by_name_number_and_placement(
        self, text: str, seen: Observation
    ) -> None:
        verdict = self._verdict(text, seen)
        assert (verdict.verdict, _problems(verdict)) == ("Match", [])
        count = 2 if text.startswith("all") else 1
        assert verdict.instances == ({"3g.40gb": 2},) * count
        assert verdict.message.startswith(f"{count} GPU{'s' if count > 1 else ''} as wanted (")
        assert "advertised" not in verdict.message

    @pytest.mark.parametrize(
        ("text", "problems"),
        [
            ("1:3g.40gb@2,3g.40gb@4", [("WrongLayout", "GPU 1", "3g.40gb at 2", "at 0, 4")]),
            (
                "1:3g.40gb@0,1g.10gb@7",
                [
                    ("WrongLayout", "GPU 1", "1g.10gb x1, 3g.40gb x1", "3g.40gb x2"),
                    ("WrongLayout", "GPU 1", "1g.10gb at 7", "none"),
                ],
            ),
            ("0:1c.3g.40gb*6", [("WrongLayout", "GPU 0", "1c.3g.40gb x6", "3g.40gb x2")]),
            ("0:off", [("UnwantedMig", "GPU 0", "no MIG", "3g.40gb x2")]),
        ],
    )
    def test_every_difference_is_a_finding(
        self, text: str, problems: list[tuple[str, str, str, str]], seen: Observation
    ) -> None:
        assert _problems(self._verdict(text, seen)) == problems

    def test_a_free_placement_is_compared_by_count_alone(self, seen: Observation) -> None:
        verdict = self._verdict("0:3g.40gb,3g.40gb@4", seen)
        assert _problems(verdict) == []
        assert [c.observed for c in verdict.checks if c.expected == "3g.40gb at 4"] == ["at 0, 4"]

    def test_without_privileges_placements_are_not_compared(self, seen: Observation) -> None:
        hidden = _with(seen, 0, gpu_instances=None)
        assert self._verdict("0:3g.40gb@2,3g.40gb@4", hidden).verdict == "Match"

    def test_gpus_that_have_gone_are_findings(self, seen: Observation) -> None:
        layout = parse(["all:3g.40gb*2"])
        wanted = layout.resolve({17: "GPU-17", 0: "GPU-0", 10: "GPU-10"})
        verdict = verify_layout(layout, wanted, seen)
        assert _problems(verdict) == [
            ("WrongGpuCount", "GPU 10", "3g.40gb*2", "no such GPU"),
            ("WrongGpuCount", "GPU 17", "3g.40gb*2", "no such GPU"),
        ]
        assert f"; {REASONS['WrongGpuCount'].advices['host']}." in verdict.message
        assert verdict.instances == ({"3g.40gb": 2},)

    def test_a_layout_of_no_gpu_is_never_a_match(self, seen: Observation) -> None:
        verdict = verify_layout(parse(["7:off"]), {}, seen)
        ((reason, where, wanted, found),) = _problems(verdict)
        assert (reason, where, wanted) == ("WrongGpuCount", "host", "7:off")
        assert found.startswith("2 GPUs, ")

    def test_a_driver_that_does_not_answer_is_unknown(self) -> None:
        layout = parse(["0:3g.40gb*2"])
        failure = Failure(call="probe", code=-1, text="no answer within 20 s")
        verdict = verify_layout(
            layout, layout.resolve({0: "GPU-0"}), Observation(gpus=(), failure=failure)
        )
        assert verdict.verdict == "Unknown"
        assert _problems(verdict) == [
            ("DriverHung", "host", "0:3g.40gb*2", "no answer within 20 s")
        ]
        assert f"; {REASONS['DriverHung'].advices['host']}." in verdict.message

    def test_gpu_with_mig_off_is_not_partitioned_even_if_no_partition_is_expected(
        self, seen: Observation
    ) -> None:
        off = _with(seen, 0, mig="disabled", mig_pending="disabled", devices=(), gpu_instances=())
        assert _problems(self._verdict("0:empty", off)) == [
            ("NotPartitioned", "GPU 0", "MIG on", "no MIG")
        ]

    def test_a_layout_takes_gpus_as_they_are_called(self, seen: Observation) -> None:
        nameless = _with(seen, 0, model="")
        assert self._verdict("all:3g.40gb*2", nameless).verdict == "Match"

    def test_a_layout_is_the_desired_state_of_its_gpus(self, seen: Observation) -> None:
        gpus = (
            *(replace(seen.gpus[0], index=i, model=f"NVIDIA {i}") for i in (0, 1, 2)),
            replace(seen.gpus[0], index=3, model=None),
            replace(seen.gpus[0], index=4),
        )
        layout = parse(["0-2:9*2", "3:off"])
        wanted = layout.resolve({gpu.index: gpu.uuid or "" for gpu in gpus})
        halves = [DesiredGpu(index=i, mig=True, instances={"3g.40gb": 2}) for i in (0, 1, 2)]
        assert desired_of(wanted, replace(seen, gpus=gpus)) == Desired(
            pool="host",
            partitioner="none",
            gpu_count=4,
            gpu_models=("NVIDIA 0", "NVIDIA 1", "NVIDIA 2", "no name"),
            gpus=(*halves, DesiredGpu(index=3, mig=False)),
            resources={},
        )

    @pytest.mark.parametrize(("length", "cut"), [(119, False), (120, False), (121, True)])
    def test_a_long_layout_is_cut_at_120_characters(
        self, length: int, cut: bool, seen: Observation
    ) -> None:
        layout = Layout(clauses=((("x" * (length - len(":off")),), GpuLayout(mig=False)),))
        wanted = _problems(verify_layout(layout, {}, seen))[0][2]
        assert wanted == (f"{str(layout)[:119]}…" if cut else str(layout))


def test_a_check_has_the_verdict_of_its_reason() -> None:
    check = Check(reason="ProfileUnclear", where="GPU 0", expected="a", observed="b")
    assert check.verdict == "Unknown"


def test_an_observed_gpu_beyond_the_wanted_count_is_not_compared(
    desired: Desired, right: Observation, node: NodeState
) -> None:
    extra = replace(right, gpus=(*right.gpus, ObservedGpu(index=2, model="x")))
    assert [p[0] for p in _problems(verify(desired, extra, node))] == ["WrongGpuCount"]
