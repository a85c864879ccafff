"""Random layouts with random faults: the verdict against an oracle that counts, and that knows none of verify's code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from node_agent.desired import Desired, DesiredGpu
from node_agent.node import NodeState
from node_agent.observed import Engines, Failure, MigDevice, Observation, ObservedGpu, OfferedProfile
from node_agent.verify import verify

# name, slices, MiB, engines (decoders, encoders, jpeg, ofa): H100 80 GB; written down here and nowhere taken from the agent.
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

layouts = st.one_of(st.none(), st.lists(st.sampled_from(NAMES), max_size=7))
"""None: no MIG."""


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
    fault = draw(st.sampled_from([None, None, None, None, 4, 15, 16, 999]))
    return Truth(None if layout is None else tuple(layout), pending, fault)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[list[str] | None], list[Truth], dict[str, int], dict[str, int], dict[str, int]]:
    wanted = draw(st.lists(layouts, min_size=1, max_size=4))
    truth = [draw(truths(layout)) for layout in wanted]
    if draw(st.sampled_from([False, False, False, True])):
        truth = truth[:-1]
    resources = {"nvidia.com/gpu": sum(1 if w is None else len(w) for w in wanted)}
    capacity = draw(st.one_of(st.just(resources), st.just({}), st.just({**resources, "nvidia.com/mig-1g.10gb": 1})))
    allocatable = draw(st.one_of(st.just(capacity), st.just({"nvidia.com/gpu": 1})))
    return wanted, truth, resources, capacity, allocatable


def oracle(
    wanted: list[list[str] | None],
    truth: list[Truth],
    resources: dict[str, int],
    capacity: dict[str, int],
    allocatable: dict[str, int],
) -> str:
    wrong = len(wanted) != len(truth)
    unknown = False
    for want, is_ in zip(wanted, truth, strict=False):
        if is_.fault is not None:
            if is_.fault in (15, 16):
                wrong = True
            else:
                unknown = True
            continue
        if is_.pending or (want is None) != (is_.layout is None) or Counter(want or ()) != Counter(is_.layout or ()):
            wrong = True
    for name in {*resources, *capacity, *allocatable}:
        # What nobody asked for must not be on offer; the kubelet keeps the capacity of a resource whose plugin has gone.
        if name in resources and capacity.get(name, 0) != resources[name]:
            wrong = True
        if allocatable.get(name, 0) != resources.get(name, 0):
            wrong = True
    return "Mismatch" if wrong else "Unknown" if unknown else "Match"


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
                engines=Engines(decoders=engines[0], encoders=engines[1], jpeg=engines[2], ofa=engines[3]),
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
            engines=Engines(decoders=engines[0], encoders=engines[1], jpeg=engines[2], ofa=engines[3]),
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
        return replace(gpu, devices=(), failure=Failure(call="nvmlDeviceGetMigMode", code=truth.fault, text="no"))
    return gpu


@given(scenes(), st.booleans())
def test_the_verdict_is_the_oracles(
    scene: tuple[list[list[str] | None], list[Truth], dict[str, int], dict[str, int], dict[str, int]], named: bool
) -> None:
    wanted, truth, resources, capacity, allocatable = scene
    desired = Desired(
        pool="p",
        partitioner="none",
        gpu_count=len(wanted),
        gpu_models=(MODEL,),
        gpus=tuple(DesiredGpu(index=i, mig=want is not None, instances=Counter(want or ())) for i, want in enumerate(wanted)),
        resources=resources,
    )
    observation = Observation(driver="550.90.07", gpus=tuple(_observed(i, t, named=named) for i, t in enumerate(truth)))
    node = NodeState(name="n", uid="u", boot_id="b", capacity=capacity, allocatable=allocatable)
    verdict = verify(desired, observation, node)
    assert verdict.verdict == oracle(wanted, truth, resources, capacity, allocatable)
    assert len(verdict.message) <= 700
    assert verdict.checks
