"""Random layouts with random faults: the verdict against an oracle that counts, and that knows none
of verify's code.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import (
    Engines,
    Failure,
    MigDevice,
    Observation,
    ObservedGpu,
    OfferedProfile,
)
from slicewright.node_agent.verdict.verify import verify

# name, slices, MiB, engines (decoders, encoders, jpeg, ofa): H100 80 GB; written down here and
# nowhere taken from the agent.
PROFILES = (
    ("1g.10gb", 1, 9984, (1, 0, 1, 0)),
    ("1g.10gb+me", 1, 9984, (1, 0, 1, 1)),
    ("1g.20gb", 1, 20096, (1, 0, 1, 0)),
    ("2g.20gb", 2, 20096, (2, 0, 2, 0)),
    ("3g.40gb", 3, 40448, (3, 0, 3, 0)),
    ("4g.40gb", 4, 40448, (4, 0, 4, 0)),
    ("7g.80gb", 7, 81152, (7, 0, 7, 1)),
)
NAMES = [row[0] for row in PROFILES]
MODEL = "NVIDIA H100 80GB HBM3"

REASON_OF_FAULT = {
    2: "DriverError",
    4: "NoPermission",
    6: "DriverError",
    9: "DriverNotLoaded",
    13: "DriverError",
    15: "GpuLost",
    16: "GpuResetRequired",
    18: "DriverVersionMismatch",
    999: "DriverError",
}
"""NVML's codes."""
STAYS_WRONG = ["GpuLost", "GpuResetRequired", "WrongGpuCount", "WrongLayout", "UnwantedMig"]
ON_ITS_WAY = [
    "MigModePending",
    "NotPartitioned",
    "LayoutIncomplete",
    "ResourcesNotAdvertised",
    "WrongResources",
    "UnexpectedResources",
    "ResourcesWithheld",
]
NOT_TOLD = ["DriverVersionMismatch", "NoPermission", "DriverError", "DriverNotLoaded"]
MOST_IMPORTANT_FIRST = [*STAYS_WRONG, *ON_ITS_WAY, *NOT_TOLD]

layouts = st.one_of(st.none(), st.lists(st.sampled_from(NAMES), max_size=7))
"""None: no MIG."""


faults = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(sorted(REASON_OF_FAULT)))


@dataclass(frozen=True)
class Truth:
    """One GPU as it is."""

    layout: tuple[str, ...] | None
    pending: bool = False
    fault: int | None = None


@st.composite
def truths(draw: st.DrawFn, wanted: list[str] | None) -> Truth:
    layout = draw(st.one_of(st.just(wanted), layouts))
    pending = draw(st.sampled_from([False, False, False, True]))
    fault = draw(faults)
    return Truth(None if layout is None else tuple(layout), pending, fault)


@dataclass(frozen=True)
class Scene:
    wanted: list[list[str] | None]
    truth: list[Truth]
    resources: dict[str, int]
    capacity: dict[str, int]
    allocatable: dict[str, int]
    fault: int | None
    """Of the probe as a whole."""


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    wanted = draw(st.lists(layouts, min_size=1, max_size=4))
    truth = [draw(truths(layout)) for layout in wanted]
    if draw(st.sampled_from([False, False, False, True])):
        truth = truth[:-1]
    resources = {"nvidia.com/gpu": sum(1 if w is None else len(w) for w in wanted)}
    capacity = draw(
        st.one_of(
            st.just(resources), st.just({}), st.just({**resources, "nvidia.com/mig-1g.10gb": 1})
        )
    )
    allocatable = draw(st.one_of(st.just(capacity), st.just({"nvidia.com/gpu": 1})))
    return Scene(
        wanted,
        truth,
        resources,
        capacity,
        allocatable,
        draw(faults) if draw(st.integers(0, 5)) == 0 else None,
    )


def oracle(scene: Scene) -> tuple[str, str]:
    """Verdict and reason."""
    if scene.fault is not None:
        found = {REASON_OF_FAULT[scene.fault]}
    else:
        found = {"WrongGpuCount"} if len(scene.wanted) != len(scene.truth) else set()
        found |= {
            about_gpu(want, is_) for want, is_ in zip(scene.wanted, scene.truth, strict=False)
        } - {""}
        found |= about_resources(scene)
    if not found:
        return "Match", "PartitionsMatch"
    reason = min(found, key=MOST_IMPORTANT_FIRST.index)
    return "Unknown" if reason in NOT_TOLD else "Mismatch", reason


def about_gpu(want: list[str] | None, is_: Truth) -> str:
    """Empty where all is well."""
    if is_.fault is not None:
        return REASON_OF_FAULT[is_.fault]
    if want is None and is_.layout is not None:
        return "UnwantedMig"
    if is_.pending:
        return "MigModePending"
    if want is None:
        return ""
    if is_.layout is None:
        return "NotPartitioned"
    missing, there = list(want), 0
    for name in is_.layout:
        if name not in missing:
            return "WrongLayout"
        missing.remove(name)
        there += 1
    if not missing:
        return ""
    return "LayoutIncomplete" if there else "NotPartitioned"


def about_resources(scene: Scene) -> set[str]:
    found = set()
    for name in {*scene.resources, *scene.capacity, *scene.allocatable}:
        wanted = scene.resources.get(name, 0)
        can, may = scene.capacity.get(name, 0), scene.allocatable.get(name, 0)
        if name not in scene.resources:
            # What was not wanted must not be advertised; the kubelet keeps the capacity of a
            # resource whose plugin has gone.
            found |= {"UnexpectedResources"} if may else set()
        elif can != wanted:
            found.add("WrongResources" if can + may else "ResourcesNotAdvertised")
        elif may != wanted:
            found.add("ResourcesWithheld")
    return found


def _observed(index: int, truth: Truth, *, named: bool) -> ObservedGpu:
    rows = {row[0]: row for row in PROFILES}
    devices = []
    for number, name in enumerate(truth.layout or ()):
        _, slices, memory, engines = rows[name]
        devices.append(
            MigDevice(
                uuid=f"MIG-{index}-{number}",
                gpu_instance=number,
                compute_instance=0,
                gpu_slices=slices,
                compute_slices=slices,
                memory_mib=memory,
                multiprocessors=16 * slices,
                engines=Engines(
                    decoders=engines[0], encoders=engines[1], jpeg=engines[2], ofa=engines[3]
                ),
                name=f"{MODEL} MIG {name}" if named else MODEL,
            )
        )
    offered = tuple(
        OfferedProfile(
            id=number,
            name=name,
            suffix="+me" if "+me" in name else "",
            slices=slices,
            memory_mib=memory,
            multiprocessors=16 * slices,
            engines=Engines(
                decoders=engines[0], encoders=engines[1], jpeg=engines[2], ofa=engines[3]
            ),
        )
        for number, (name, slices, memory, engines) in enumerate(PROFILES)
    )
    on, off = "enabled", "disabled"
    now, later = (off, on) if truth.layout is None else (on, off)
    gpu = ObservedGpu(
        index=index,
        uuid=f"GPU-{index}",
        model=MODEL,
        mig=now,  # type: ignore[arg-type]
        mig_pending=later if truth.pending else now,  # type: ignore[arg-type]
        devices=tuple(devices),
        offered=offered,
    )
    if truth.fault is not None:
        return replace(
            gpu,
            devices=(),
            failure=Failure(call="nvmlDeviceGetMigMode", code=truth.fault, text="no"),
        )
    return gpu


@given(scenes(), st.booleans())
def test_verdict_and_reason_are_the_oracles(scene: Scene, named: bool) -> None:
    desired = Desired(
        pool="p",
        partitioner="none",
        gpu_count=len(scene.wanted),
        gpu_models=(MODEL,),
        gpus=tuple(
            DesiredGpu(index=i, mig=want is not None, instances=Counter(want or ()))
            for i, want in enumerate(scene.wanted)
        ),
        resources=scene.resources,
    )
    if scene.fault is None:
        gpus = tuple(_observed(i, t, named=named) for i, t in enumerate(scene.truth))
        observation = Observation(driver="550.90.07", gpus=gpus)
    else:
        observation = Observation(failure=Failure(call="nvmlInit", code=scene.fault, text="no"))
    node = NodeState(
        name="n", uid="u", boot_id="b", capacity=scene.capacity, allocatable=scene.allocatable
    )
    verdict = verify(desired, observation, node)
    assert (verdict.verdict, verdict.reason) == oracle(scene)
    assert len(verdict.message) <= 700
    assert verdict.checks
