"""When the fabric or the compute mode of a GPU keeps programs from starting."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis.desired_state import Desired, DesiredGpu, DesiredSharing
from slicewright.apis.layout import parse
from slicewright.node_agent.nvml.observed import (
    ComputeMode,
    Fabric,
    FabricState,
    Observation,
    ObservedGpu,
)
from slicewright.node_agent.verdict.fabric_patience import LIMIT_S, FabricPatience
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.verify import verify, verify_layout
from tests.properties import examples

H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-80GB"


def _verify(
    *,
    model: str = H100,
    count: int = 8,
    mig: bool = False,
    fabric: Fabric | None = None,
    compute_mode: ComputeMode | None = "default",
    sharing: str = "",
) -> Verdict:
    mode = "enabled" if mig else "disabled"
    desired = Desired(
        pool="p",
        partitioner="none",
        gpu_count=count,
        gpu_models=(model,),
        gpus=(DesiredGpu(index="all", mig=mig),),
        resources={"nvidia.com/gpu": 4 * count},
        sharing=(
            DesiredSharing(
                resource="nvidia.com/gpu",
                strategy=sharing,  # type: ignore[arg-type]
                replicas=4,
            ),
        )
        if sharing
        else (),
    )
    gpus = tuple(
        ObservedGpu(
            index=index,
            uuid=f"GPU-{index}",
            model=model,
            mig=mode,  # type: ignore[arg-type]
            mig_pending=mode,  # type: ignore[arg-type]
            fabric=fabric,
            compute_mode=compute_mode,
        )
        for index in range(count)
    )
    return verify(desired, Observation(driver="1", gpus=gpus), None, silicon_only=True)


def _fabric_reason(state: FabricState, **facts: object) -> str:
    machine = {key: facts.pop(key) for key in ("model", "count", "mig") if key in facts}
    fabric = Fabric(state=state, **facts)  # type: ignore[arg-type]
    return _verify(fabric=fabric, **machine).reason  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["not started", "in progress"])
def test_a_fabric_that_is_not_set_up_is_no_match(state: FabricState) -> None:
    assert _fabric_reason(state) == "FabricNotReady"


def test_a_machine_with_switches_must_have_a_fabric_and_others_need_none() -> None:
    assert _fabric_reason("not supported") == "FabricNotReady"
    for facts in ({"count": 1}, {"count": 4}, {"model": "NVIDIA H100 NVL"}, {"model": A100}):
        assert _fabric_reason("not supported", **facts) == "PartitionsMatch"


def test_the_status_and_the_faults_of_a_completed_fabric_count_and_its_notes_do_not() -> None:
    assert _fabric_reason("completed") == "PartitionsMatch"
    assert _fabric_reason("completed", notes=("degraded bandwidth",)) == "PartitionsMatch"
    assert _fabric_reason("completed", status=999) == "FabricFailed"
    assert _fabric_reason("completed", faults=("unhealthy route",)) == "FabricFailed"


def test_the_fabric_of_gpus_in_mig_mode_does_not_count() -> None:
    """Whether they need it is not documented: the proof that they compute decides."""
    assert _verify(mig=True, fabric=None).reason == _fabric_reason("not started", mig=True)


def test_a_driver_that_reports_no_fabric_is_judged_without_it() -> None:
    assert _verify(fabric=None, compute_mode=None).reason == "PartitionsMatch"


@pytest.mark.parametrize(
    ("mode", "sharing", "reason"),
    [
        ("default", "", "PartitionsMatch"),
        ("default", "time-slicing", "PartitionsMatch"),
        ("default", "mps", "PartitionsMatch"),
        ("exclusive process", "", "ComputeModeWrong"),
        ("exclusive process", "time-slicing", "ComputeModeWrong"),
        ("exclusive process", "mps", "PartitionsMatch"),
        ("prohibited", "", "ComputeModeWrong"),
        ("prohibited", "mps", "ComputeModeWrong"),
        ("exclusive thread", "mps", "ComputeModeWrong"),
    ],
)
def test_only_mps_may_make_a_gpu_exclusive(mode: ComputeMode, sharing: str, reason: str) -> None:
    assert _verify(compute_mode=mode, sharing=sharing).reason == reason


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ("all:off", "FabricNotReady"),
        ("0-3:off", "FabricNotReady"),
        ("0:3g.40gb*2", "NotPartitioned"),
    ],
)
def test_a_host_needs_a_fabric_for_its_whole_gpus_and_may_have_any_compute_mode(
    layout: str, reason: str
) -> None:
    """A layout does not state the compute mode."""
    gpus = tuple(
        ObservedGpu(
            index=index,
            uuid=f"GPU-{index}",
            model=H100,
            mig="disabled",
            mig_pending="disabled",
            fabric=Fabric(state="not supported"),
            compute_mode="exclusive process",
        )
        for index in range(8)
    )
    wanted = parse([layout])
    observation = Observation(driver="1", gpus=gpus)
    verdict = verify_layout(wanted, wanted.resolve(observation.uuids), observation)
    assert verdict.reason == reason


@given(
    state=st.sampled_from(get_args(FabricState)),
    status=st.sampled_from([0, 999]),
    faults=st.sampled_from([(), ("unhealthy route",)]),
    mode=st.sampled_from(get_args(ComputeMode)),
    count=st.integers(1, 8),
    model=st.sampled_from([H100, A100, "NVIDIA H100 PCIe", "Tesla T4"]),
    sharing=st.sampled_from(["", "time-slicing", "mps"]),
)
@settings(max_examples=examples(200))
def test_a_match_means_that_fabric_and_compute_mode_let_programs_start(
    state: FabricState, status: int, faults: tuple[str, ...], mode: ComputeMode, count: int,
    model: str, sharing: str,
) -> None:  # fmt: skip
    fabric = Fabric(state=state, status=status, faults=faults)
    verdict = _verify(fabric=fabric, compute_mode=mode, count=count, model=model, sharing=sharing)
    set_up = state == "completed" and not status and not faults
    absent = state == "not supported" and not (model == H100 and count == 8)
    usable = mode == "default" or (mode == "exclusive process" and sharing == "mps")
    assert (verdict.verdict == "Match") == ((set_up or absent) and usable)


def test_a_fabric_that_is_not_set_up_in_ten_minutes_has_failed() -> None:
    patience = FabricPatience()
    starting = _verify(fabric=Fabric(state="in progress"))
    desired = _desired_of_eight()
    judged = [patience.judge(starting, desired, now) for now in (50.0, 49.0 + LIMIT_S)]
    assert [verdict.reason for verdict in judged] == ["FabricNotReady"] * 2
    failed = patience.judge(starting, desired, 50.0 + LIMIT_S)
    assert failed.reason == "FabricFailed"
    assert failed.message.startswith("GPUs 0-7 wanted an NVLink fabric that is set up, found in")
    well = _verify(fabric=Fabric(state="completed"))
    assert patience.judge(well, desired, 60.0 + LIMIT_S) == well
    again = patience.judge(starting, desired, 70.0 + LIMIT_S)
    assert again.reason == "FabricNotReady", "it is being set up again"


def _desired_of_eight() -> Desired:
    return Desired(
        pool="p",
        partitioner="none",
        gpu_count=8,
        gpu_models=(H100,),
        gpus=(DesiredGpu(index="all", mig=False),),
        resources={},
    )
