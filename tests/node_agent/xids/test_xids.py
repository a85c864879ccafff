"""Xids: the driver's lines are understood, no other line is, and only what leaves a GPU unusable
changes a verdict.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.apis.desired_state import Desired
from slicewright.apis.layout import parse as layout
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.display import show
from slicewright.node_agent.nvml import observed
from slicewright.node_agent.nvml.observed import Failure, Observation, ObservedGpu, Vitals, Xid
from slicewright.node_agent.reporting.health import Health
from slicewright.node_agent.reporting.metrics import Metrics
from slicewright.node_agent.verdict.verify import desired_of, verify
from slicewright.node_agent.watch import HostWatch, Pace
from slicewright.node_agent.xids import meanings as xid_meanings
from slicewright.node_agent.xids.history import Event, XidHistory, consequence, event, pci_address
from slicewright.node_agent.xids.kernel_log import Record
from slicewright.rehearsal.cluster.silicon import state
from slicewright.telemetry import log
from tests.node_agent.clocks import Clocks

_GONE = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
_UNCONTAINED = (
    "NVRM: Xid (PCI:0000:3b:00): 95, pid=77, name=python, Uncontained: FBHUB. RST: Yes, D-RST: No"
)
MATCH = 'slicewright_verdict{verdict="Match"} 1'
_PAGE_FAULT = (
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python, Ch 00000008, intr 00000000. MMU Fault"
)
_HEALED = (
    "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset "
    "Required) to 0x0 (None)"
)
_ASKED = (
    "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU "
    "Reset Required)"
)


def _line(text: str, at_s: float = 9.0) -> Record:
    return Record(at_s=at_s, text=text)


# --- lines ---


@pytest.mark.parametrize(
    ("text", "number", "process", "instance"),
    [
        (_GONE, 79, None, None),
        (_UNCONTAINED, 95, 77, None),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 43, pid=12, name=a b, Ch 00000008", 43, 12, 5),
        (
            "NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 13, pid=12, name=x, Graphics "
            "SM Warp Exception",
            13,
            12,
            5,
        ),
        ("NVRM: Xid (0000:3b:00): 63, Dynamic Page Retirement: New retired page", 63, None, None),
        ("NVRM: Xid (PCI:0000:3b:00): 48", 48, None, None),
        ("nvidia 0000:3b:00.0: NVRM: Xid (PCI:0000:3b:00.0): 62, 0000", 62, None, None),
    ],
)
def test_the_drivers_lines_are_understood(
    text: str, number: int, process: int | None, instance: int | None
) -> None:
    found = event(_line(text, 4.5))
    assert found is not None
    assert found.pci == "0000:3b:00"
    assert (found.xid.number, found.xid.process, found.xid.gpu_instance, found.xid.at_s) == (
        number,
        process,
        instance,
        4.5,
    )


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07",
        "NVRM: GPU at PCI:0000:3b:00: GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
        "NVRM: Xid (PCI:0000:3b:00)",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal",
        "Xid 79",
        "",
    ],
)
def test_other_lines_are_no_xid(text: str) -> None:
    assert event(_line(text)) is None


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    found = event(_line(text))
    assert found is None or isinstance(found, Event)


_DOMAINS = st.integers(0, 0xFFFF)
_BYTES = st.integers(0, 0xFF)


@given(
    _DOMAINS,
    _BYTES,
    st.integers(0, 31),
    st.integers(0, 999),
    st.text(alphabet=st.characters(exclude_characters="\n\r")),
)
def test_every_xid_of_every_place_comes_back(
    domain: int, bus: int, slot: int, number: int, text: str
) -> None:
    """NVML's and the kernel's PCI address become the same."""
    found = event(_line(f"NVRM: Xid (PCI:{domain:04x}:{bus:02x}:{slot:02x}): {number}, {text}"))
    assert found is not None
    assert (found.xid.number, found.pci) == (
        number,
        pci_address(f"{domain:08X}:{bus:02X}:{slot:02X}.0"),
    )


# --- what still stands ---


def _gpu(action: str | None = None, **more: Any) -> Observation:
    vitals = Vitals(recovery_action=action) if action else None
    return Observation(
        driver="1",
        gpus=(ObservedGpu(index=0, pci_bus_id="00000000:3B:00.0", vitals=vitals, **more),),
    )


def _stands(*texts: str, old: bool = False, action: str | None = None) -> int | None:
    history = XidHistory()
    history.add(map(_line, texts), old=old)
    stands = history.annotate(_gpu(action)).gpus[0].stands
    return stands.number if stands else None


@pytest.mark.parametrize(
    "number", [n for n, m in xid_meanings.MEANINGS.items() if m.consequence == "none"]
)
@pytest.mark.parametrize("action", [None, "none", "reset the GPU"])
def test_errors_of_applications_and_of_no_consequence_never_stand(
    number: int, action: str | None
) -> None:
    assert (
        _stands(f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=1, name=x, text", action=action) is None
    )


def test_no_error_of_an_application_has_a_consequence() -> None:
    assert {
        consequence(Xid(number=n, at_s=0, text=""))
        for n in (13, 31, 43, 45, 63, 68, 92, 94, 109, 999)
    } == {"none"}


@pytest.mark.parametrize(
    ("texts", "old", "action", "stands"),
    [
        ((_GONE,), False, None, 79),
        ((_GONE,), True, None, None),
        ((_GONE,), True, "reboot the node", 79),
        ((_GONE,), False, "none", None),
        ((_UNCONTAINED, _PAGE_FAULT), False, None, 95),
        ((_UNCONTAINED, _GONE), False, None, 79),
        ((_GONE, _UNCONTAINED), False, None, 79),
        ((_UNCONTAINED, _HEALED), False, None, None),
        ((_HEALED, _UNCONTAINED), False, None, 95),
        ((_ASKED,), False, None, 154),
        ((_UNCONTAINED, _ASKED), False, None, 95),
        (
            (_UNCONTAINED, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07"),
            False,
            None,
            None,
        ),
    ],
)
def test_an_xid_stands_until_somebody_did_something(
    texts: tuple[str, ...], old: bool, action: str | None, stands: int | None
) -> None:
    assert _stands(*texts, old=old, action=action) == stands


def test_a_recovery_action_is_kept_for_the_quick_probes_after_it() -> None:
    history = XidHistory()
    history.add([_line(_UNCONTAINED)], old=True)
    assert history.annotate(_gpu()).gpus[0].stands is None
    for action in ("reset the GPU", None):
        assert history.annotate(_gpu(action)).gpus[0].stands is not None
    for action in ("none", None):
        assert history.annotate(_gpu(action)).gpus[0].stands is None
    assert history.annotate(_gpu()).gpus[0].xid_counts == ((95, 1),), "what happened stays counted"


def test_a_lost_gpu_still_gets_its_xid() -> None:
    """It no longer reports its PCI address; the probe before did."""
    history = XidHistory()
    history.annotate(_gpu())
    history.add([_line(_GONE)])
    lost = Observation(
        driver="1",
        gpus=(ObservedGpu(index=0, failure=Failure(call="c", code=15, text="GPU is lost")),),
    )
    assert [xid.number for xid in history.annotate(lost).gpus[0].xids] == [79]


def test_other_gpus_xids_are_not_ours() -> None:
    history = XidHistory()
    history.add([_line(_GONE.replace("3b", "5e"))])
    assert history.annotate(_gpu()) == _gpu()


def test_a_flood_is_counted_whole_and_kept_short() -> None:
    history = XidHistory()
    history.add([_line(_PAGE_FAULT, at) for at in range(5000)])
    (gpu,) = history.annotate(_gpu()).gpus
    assert gpu.xid_counts == ((31, 5000),)
    assert [xid.at_s for xid in gpu.xids] == list(range(4992, 5000))


# --- what is said ---


def _with(right: Observation, xid: Xid, **more: Any) -> Observation:
    first = replace(right.gpus[0], xids=(xid,), xid_counts=((xid.number, 2),), **more)
    return replace(right, gpus=(first, *right.gpus[1:]))


def test_an_application_error_does_not_change_the_verdict(
    right: Observation, desired: Desired, node: NodeState
) -> None:
    page_fault = Xid(number=31, at_s=1, text="MMU Fault")
    assert verify(desired, _with(right, page_fault), node) == verify(desired, right, node)


@pytest.mark.parametrize(
    ("number", "reason", "words"),
    [
        (
            79,
            "GpuLost",
            "GPU 0 wanted no error that needs a reset, found Xid 79 (GPU has fallen off the bus)",
        ),
        (95, "GpuResetRequired", "found Xid 95 (uncontained memory error)"),
        (48, "GpuResetRequired", "found Xid 48 (double-bit ECC error)"),
    ],
)
def test_outstanding_xid_gives_the_reason_and_is_in_the_message(
    number: int, reason: str, words: str, right: Observation, desired: Desired, node: NodeState
) -> None:
    xid = Xid(number=number, at_s=1, text="")
    verdict = verify(desired, _with(right, xid, stands=xid), node)
    assert (verdict.verdict, verdict.reason) == ("Mismatch", reason)
    assert words in verdict.message


def test_the_sentence_of_a_lost_gpu_names_its_xid(
    right: Observation, desired: Desired, node: NodeState
) -> None:
    xid = Xid(number=79, at_s=1, text="")
    failure = Failure(call="nvmlDeviceGetHandleByIndex", code=15, text="GPU is lost")
    verdict = verify(desired, _with(right, xid, stands=xid, failure=failure), node)
    assert verdict.reason == "GpuLost"
    assert "GPU is lost, after Xid 79 (GPU has fallen off the bus)" in verdict.message


def test_xids_survive_json_and_are_shown(right: Observation) -> None:
    xid = Xid(number=95, at_s=12.5, text="Uncontained", process=7, gpu_instance=3)
    seen = _with(right, xid, stands=xid)
    assert observed.parse(observed.dump(seen)) == seen
    assert (
        "    ! Xid 95 (uncontained memory error), 2 times, last 12 s after boot: Uncontained"
        in show.gpus(seen).splitlines()
    )


# --- the loop ---


@contextmanager
def _watching(node: Any, kernel_log: Path, clocks: Clocks) -> Iterator[tuple[HostWatch, Metrics]]:
    prober = node.prober(thorough=True)
    metrics = Metrics(desired_of({}, Observation()))
    loop = HostWatch(
        layout(["all:3g.40gb*2"]),
        prober,
        metrics=metrics,
        health=Health(stall_after_s=30, stale_after_s=30, clock=clocks.monotonic),
        pace=Pace(),
        clock=clocks.clock(),
        kernel_log=kernel_log,
    )
    try:
        yield loop, metrics
    finally:
        loop.close()
        prober.close()


@pytest.fixture
def halves(silicon: Callable[..., Any]) -> Any:
    node = silicon("H100-80", 1)
    state.repartition(node.path, 0, ["3g.40gb", "3g.40gb"])
    return node


def test_an_xid_changes_the_verdict_until_the_driver_has_recovered(
    halves: Any, clocks: Clocks
) -> None:
    read_end, write_end = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
    bus = pci_address(state.load(halves.path).gpus[0].pci)

    def kernel_writes(text: str) -> None:
        os.write(write_end, f"3,1,9000000,-;{text.replace('0000:3b:00', bus)}\n".encode())

    with _watching(halves, Path(f"/proc/self/fd/{read_end}"), clocks) as (loop, metrics):
        loop.turn()
        assert MATCH in metrics.text
        assert "slicewright_xid_source_up 1" in metrics.text
        clocks.sleep(Pace().thorough_every_s)
        loop.turn()
        kernel_writes(_PAGE_FAULT)
        clocks.sleep(Pace().interval_s)
        loop.turn()
        assert 'xid="31"} 1' in metrics.text, "the next probe exports it, a thorough one or not"
        assert re.search(r'xid_errors_total\{gpu="0",minor="\d+",uuid="GPU-', metrics.text)
        assert MATCH in metrics.text
        state.set_health(halves.path, 0, recovery_action=1)
        kernel_writes(_UNCONTAINED)
        loop.turn()
        assert 'slicewright_mismatch{reason="GpuResetRequired"} 1' in metrics.text
        assert 'xid="95"} 1' in metrics.text, "the probe after a serious Xid is a thorough one"
        state.set_health(halves.path, 0, recovery_action=0)
        clocks.sleep(Pace().thorough_every_s)
        loop.turn()
        assert MATCH in metrics.text
        assert 'xid="95"} 1' in metrics.text
    os.close(read_end)
    os.close(write_end)


def test_without_the_kernel_log_the_loop_says_so_once_and_goes_on(
    halves: Any, tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    for level in ("info", "warning"):
        monkeypatch.setattr(log, level, lambda event, /, **facts: logged.append(event))
    with _watching(halves, tmp_path / "nothing", clocks) as (loop, metrics):
        for _ in range(5):
            loop.turn()
        assert MATCH in metrics.text
        assert "slicewright_probe_duration_seconds_count 5" in metrics.text
        assert "slicewright_xid_source_up 0" in metrics.text
        assert "slicewright_gpu_xid_errors_total" not in metrics.text
    assert logged.count("xids not watched") == 1
