from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.apis.desired_state import Desired, DesiredGpu, hash_of
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import (
    Engines,
    Failure,
    MigDevice,
    MigMode,
    Observation,
    ObservedGpu,
)
from slicewright.node_agent.reporting.report import (
    HEARTBEAT_S,
    Reporter,
    body,
    content,
    seconds,
    stamp,
)
from slicewright.node_agent.verdict.damping import Damper
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.verify import verify

START = 1_800_000_000.0
LOST = Failure(call="nvmlDeviceGetMigMode", code=15, text="GPU is lost")


@pytest.fixture(scope="module")
def quarters() -> tuple[MigDevice, ...]:
    """The four partitions of an RTX PRO 6000."""
    return tuple(
        MigDevice(
            uuid=f"MIG-{instance:036}",
            gpu_instance=instance,
            compute_instance=0,
            gpu_slices=1,
            compute_slices=1,
            memory_mib=24192,
            multiprocessors=46,
            engines=Engines(decoders=1, encoders=1, jpeg=1, ofa=0),
            name=f"{RTX} MIG 1g.24gb",
        )
        for instance in range(3, 7)
    )


@dataclass
class Api:
    """Stands for the API server: one report, and errors on demand."""

    stored: dict[str, Any] | None = None
    error: ApiError | Unreachable | None = None
    writes: list[dict[str, Any]] = field(default_factory=list)
    reads: int = 0

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/apis/slicewright.io/v1alpha1/gpunodereports/n1"
        self.reads += 1
        if self.error:
            raise self.error
        if self.stored is None:
            raise ApiError(404, {"reason": "NotFound", "message": "not found"})
        return self.stored

    def patch(self, path: str, new: dict[str, Any], **options: str) -> dict[str, Any]:
        assert options == {
            "kind": "apply",
            "fieldManager": "slicewright-node-agent",
            "force": "true",
        }
        if self.error:
            raise self.error
        self.stored = new
        self.writes.append(new)
        return new


@pytest.fixture
def api() -> Api:
    return Api()


def _reporter(api: Api) -> Reporter:
    return Reporter(cast(Client, api), "n1", random=lambda: 0.5)


@pytest.fixture
def words(desired: Desired, right: Observation, node: NodeState) -> dict[str, Any]:
    return body(
        verify(desired, right, node),
        right,
        node,
        pool="halves",
        layout_hash=hash_of(desired),
        at=START,
    )


def _later(words: dict[str, Any], at: float, **changes: Any) -> dict[str, Any]:
    return {**words, "report": {**words["report"], "time": stamp(at), **changes}}


def test_a_report_has_every_field_that_the_controller_needs(
    words: dict[str, Any], desired: Desired
) -> None:
    report = words["report"]
    assert words["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}
    ]
    assert (report["verdict"], report["reason"], report["pool"]) == (
        "Match",
        "PartitionsMatch",
        "halves",
    )
    assert (report["observedHash"], report["bootID"], report["time"]) == (
        hash_of(desired),
        "b1",
        stamp(START),
    )
    assert report["models"] == ["NVIDIA H100 80GB HBM3"]
    assert report["gpus"] == [{"indexes": [0, 1], "mig": "enabled", "instances": {"3g.40gb": 2}}]


def test_a_silent_driver_is_reported_without_gpus(desired: Desired, node: NodeState) -> None:
    silent = Observation(failure=Failure(call="nvmlInit", code=9, text="Driver Not Loaded"))
    report = body(
        verify(desired, silent, node), silent, node, pool="p", layout_hash="0" * 64, at=START
    )["report"]
    assert (report["verdict"], report["gpus"]) == ("Unknown", [])
    assert "driver" not in report


def test_gpus_share_a_report_entry_only_if_their_facts_are_equal(
    desired: Desired, right: Observation, node: NodeState
) -> None:
    well = right.gpus[0]
    lost = replace(well, model=None, mig="unknown", mig_pending="unknown", devices=(), failure=LOST)
    gpus = (
        well,
        lost,
        replace(well, index=2),
        replace(well, index=3, devices=()),
        replace(well, index=4, model="NVIDIA L4"),
        lost,
    )
    seen = replace(right, gpus=tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus)))
    report = body(
        verify(desired, seen, node), seen, node, pool="p", layout_hash="0" * 64, at=START
    )["report"]
    cut = {"mig": "enabled", "instances": {"3g.40gb": 2}}
    assert report["models"] == ["NVIDIA H100 80GB HBM3", "NVIDIA L4"]
    assert report["gpus"] == [
        {"indexes": [0, 2], "model": "NVIDIA H100 80GB HBM3", **cut},
        {"indexes": [1, 5], "mig": "unknown", "error": "nvmlDeviceGetMigMode: GPU is lost"},
        {"indexes": [3], "model": "NVIDIA H100 80GB HBM3", "mig": "enabled"},
        {"indexes": [4], "model": "NVIDIA L4", **cut},
    ]


RTX = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
FAULTS = [
    LOST,
    Failure(call="nvmlDeviceGetMigDeviceHandleByIndex", code=16, text="GPU requires restart"),
    Failure(call="nvmlDeviceGetHandleByIndex_v2", code=999, text="Unknown Error"),
]


def _long(
    wanted: dict[str, int],
    gpus: list[ObservedGpu],
    *,
    name: int = 63,
    proof: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The report about `gpus` of a node whose names are all as long as they may be, or (`name`)
    come to be.
    """
    desired = Desired(
        pool="p" * 63,
        partitioner="mig-manager",
        gpu_count=16,
        gpu_models=(RTX,),
        gpus=(DesiredGpu(index="all", mig=True, instances=wanted),),
        resources={f"nvidia.com/mig-{profile}": 16 * count for profile, count in wanted.items()},
    )
    node = NodeState(name="n" * name, uid="u" * 36, boot_id="b" * 36, capacity={}, allocatable={})
    seen = Observation(driver="580.126.20", gpus=tuple(gpus))
    return body(
        verify(desired, seen, node),
        seen,
        node,
        pool=desired.pool,
        layout_hash=hash_of(desired),
        at=START,
        proof=proof,
    )


def _gpu(
    index: int,
    devices: tuple[MigDevice, ...] = (),
    failure: Failure | None = None,
    model: str = RTX,
) -> ObservedGpu:
    mode: MigMode = "unknown" if failure else "enabled"
    return ObservedGpu(
        index=index,
        uuid=f"GPU-{index:036}",
        model=model,
        mig=mode,
        mig_pending=mode,
        devices=() if failure else devices,
        failure=failure,
    )


def _sent(report: dict[str, Any]) -> int:
    """Bytes, as kubeapi's client sends them."""
    return len(json.dumps(report).encode())


def test_complete_report_of_sixteen_gpus_is_under_two_kilobytes(
    quarters: tuple[MigDevice, ...],
) -> None:
    whole = _long({"1g.24gb": 4}, [_gpu(index, quarters) for index in range(16)])
    assert whole["report"]["gpus"] == [
        {"indexes": [*range(16)], "mig": "enabled", "instances": {"1g.24gb": 4}}
    ]
    assert _sent(whole) <= 2048


def test_so_is_one_with_faults_on_every_second_of_them(quarters: tuple[MigDevice, ...]) -> None:
    gpus = [
        _gpu(index, quarters[: index % 4], FAULTS[index % 3] if index % 2 else None)
        for index in range(16)
    ]
    whole = _long({"1g.24gb": 4}, gpus)
    assert _sent(whole) <= 2048
    assert all(len(entry) > 1 for entry in whole["report"]["gpus"]), "nothing had to be left out"
    assert json.dumps(whole["report"]["gpus"]).count("GPU requires restart") == 1


@pytest.mark.parametrize("count", [1, 7, 56])
def test_a_report_has_as_many_devices_of_the_proof_as_fit(
    count: int, quarters: tuple[MigDevice, ...]
) -> None:
    devices = [
        {"uuid": f"MIG-{index:036}", "outcome": "computed", "writeGBps": 300, "readGBps": 320}
        for index in range(count)
    ]
    devices[0] = {"uuid": "MIG-0", "outcome": "failed", "error": "CUDA_ERROR_LAUNCH_FAILED (719)"}
    proof = {
        "key": "0" * 32,
        "outcome": "failed",
        "seconds": 6.1,
        "deviceCount": count,
        "devices": devices,
    }
    whole = _long({"1g.24gb": 4}, [_gpu(index, quarters) for index in range(8)], proof=proof)
    compute = whole["report"]["compute"]
    assert _sent(whole) <= 2048
    assert compute["devices"] == devices[: len(compute["devices"])]
    assert compute["devices"][0]["uuid"] == "MIG-0"
    assert compute["deviceCount"] == count


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([None, *FAULTS]), st.text("Xx ", max_size=90)),
        min_size=1,
        max_size=16,
    ),
    st.integers(1, 253),
)
def test_every_report_fits_the_limit_and_lists_every_gpu(
    quarters: tuple[MigDevice, ...], scene: list[tuple[int, Failure | None, str]], name: int
) -> None:
    gpus = [
        _gpu(index, quarters[:count], failure, model)
        for index, (count, failure, model) in enumerate(scene)
    ]
    whole = _long({"1g.24gb": 4}, gpus, name=name)
    assert _sent(whole) <= 2048
    assert sorted(i for entry in whole["report"]["gpus"] for i in entry["indexes"]) == [
        gpu.index for gpu in gpus
    ]


def test_times_are_kept_to_the_second() -> None:
    assert seconds(stamp(START)) == START


def test_an_unchanged_report_is_written_once_and_then_by_the_heartbeat(
    api: Api, words: dict[str, Any]
) -> None:
    reporter = _reporter(api)
    assert reporter.write(words, now=START)
    beat = HEARTBEAT_S * 1.1
    assert not any(
        reporter.write(_later(words, START + s), now=START + s) for s in (1, 10, 100, 300, beat - 1)
    )
    assert reporter.write(_later(words, START + beat), now=START + beat)
    assert len(api.writes) == 2


def test_news_is_written_at_once(api: Api, words: dict[str, Any]) -> None:
    reporter = _reporter(api)
    reporter.write(words, now=START)
    assert reporter.write(
        _later(words, START + 1, verdict="Mismatch", reason="WrongLayout"), now=START + 1
    )
    assert reporter.write(
        _later(words, START + 2, verdict="Mismatch", reason="GpuLost"), now=START + 2
    )


def test_details_under_the_same_reason_wait_for_each_other(api: Api, words: dict[str, Any]) -> None:
    """While eight GPUs are partitioned one after the other, every second probe differs."""
    reporter = _reporter(api)
    reporter.write(words, now=START)
    written = [
        reporter.write(_later(words, START + s, message=f"{s}"), now=START + s) for s in range(1, 7)
    ]
    assert written == [False, False, False, False, True, False]


MATCH, LOST_GPU, HUNG = (
    Verdict(
        verdict="Match",
        reason="PartitionsMatch",
        message="as wanted.",
        checks=(),
        instances=({"3g.40gb": 2}, {"3g.40gb": 2}),
    ),
    Verdict(
        verdict="Mismatch",
        reason="GpuLost",
        message="GPU 1 lost.",
        checks=(),
        instances=({"3g.40gb": 2}, {}),
    ),
    Verdict(verdict="Unknown", reason="DriverHung", message="no answer.", checks=(), instances=()),
)


@pytest.mark.parametrize(
    "verdicts",
    [(LOST_GPU, HUNG), (MATCH, LOST_GPU), (MATCH, HUNG), (MATCH, LOST_GPU, HUNG)],
    ids=lambda v: "-".join(x.reason for x in v),
)
def test_report_of_a_node_that_flaps_for_an_hour_is_written_about_once_a_minute(
    verdicts: tuple[Verdict, ...], api: Api, right: Observation, node: NodeState
) -> None:
    """As `watch` does it: one probe a second, through the damper."""
    reporter, damper = _reporter(api), Damper()
    for second in range(3600):
        verdict = damper.damp(verdicts[second % len(verdicts)], second)
        seen = replace(right, gpus=right.gpus[: len(verdict.instances)])
        now = START + second
        reporter.write(body(verdict, seen, node, pool="p", layout_hash="0" * 64, at=now), now=now)
    written = [write["report"]["verdict"] for write in api.writes]
    assert len(written) <= 90, "twenty at once, and then one a minute"


def test_the_end_of_a_match_waits_for_nothing(api: Api, words: dict[str, Any]) -> None:
    reporter = _reporter(api)
    for second in range(60):
        reporter.write(
            _later(words, START + second, verdict="Unknown", reason=f"R{second % 2}"),
            now=START + second,
        )
    later = START + 200
    assert reporter.write(_later(words, later), now=later)
    assert reporter.write(
        _later(words, later + 1, verdict="Mismatch", reason="GpuLost"), now=later + 1
    )
    for second in range(2, 90):
        reporter.write(
            _later(words, later + second, verdict="Unknown", reason=f"R{second % 2}"),
            now=later + second,
        )
    assert len(api.writes) <= 26


def test_after_some_quiet_news_is_written_at_once_again(api: Api, words: dict[str, Any]) -> None:
    reporter = _reporter(api)
    news = [_later(words, START, verdict="Mismatch", reason=f"R{n % 2}") for n in range(100)]
    assert not all(reporter.write(new, now=START + n) for n, new in enumerate(news))
    quiet = START + 100 + 21 * 60
    assert all(reporter.write(new, now=quiet + n) for n, new in enumerate(news[:20]))


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_does_not_hold_news_back(
    jump: float, api: Api, words: dict[str, Any]
) -> None:
    reporter = _reporter(api)
    news = [_later(words, START, verdict="Mismatch", reason=f"R{n % 2}") for n in range(40)]
    for n, new in enumerate(news):
        reporter.write(new, now=START + n)
    written = [reporter.write(news[n % 2], now=START + jump + n) for n in range(200)]
    assert any(written[:70])


def test_a_restarted_agent_does_not_repeat_itself(api: Api, words: dict[str, Any]) -> None:
    _reporter(api).write(words, now=START)
    second = _reporter(api)
    assert not second.write(_later(words, START + 60), now=START + 60)
    assert second.write(_later(words, START + HEARTBEAT_S * 1.1), now=START + HEARTBEAT_S * 1.1)


def test_a_new_boot_and_a_new_node_are_news(api: Api, words: dict[str, Any]) -> None:
    _reporter(api).write(words, now=START)
    assert _reporter(api).write(_later(words, START + 1, bootID="b2"), now=START + 1)
    other = {
        **words,
        "metadata": {
            "name": "n1",
            "ownerReferences": [{"kind": "Node", "name": "n1", "uid": "u2"}],
        },
    }
    assert content(other) != content(words)
    assert _reporter(api).write(_later(other, START + 20), now=START + 20)


@pytest.mark.parametrize("restarted", [False, True])
def test_report_that_no_longer_counts_is_written_again_once(
    api: Api, words: dict[str, Any], restarted: bool
) -> None:
    reporter = _reporter(api)
    reporter.write(words, now=START)
    after = stamp(START)
    reporter = _reporter(api) if restarted else reporter
    assert not reporter.write(_later(words, START), now=START, after=after), "of the same second"
    assert not reporter.write(_later(words, START + 1), now=START + 1, after=stamp(START - 1))
    assert not reporter.write(_later(words, START + 1), now=START + 1)
    assert reporter.write(_later(words, START + 2), now=START + 2, after=after)
    assert not reporter.write(_later(words, START + 3), now=START + 3, after=after)


def test_an_unreadable_report_is_overwritten(api: Api, words: dict[str, Any]) -> None:
    api.stored = {"metadata": {"name": "n1"}, "report": {"time": "long ago"}}
    assert _reporter(api).write(words, now=START)


def test_after_an_error_it_waits_longer_each_time(api: Api, words: dict[str, Any]) -> None:
    api.error = ApiError(500, {"message": "etcd is away"})
    reporter = _reporter(api)
    tries = []
    for second in range(300):
        before = api.reads
        assert not reporter.write(words, now=START + second)
        if api.reads > before:
            tries.append(second)
    gaps = [b - a for a, b in pairwise(tries)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 30
    assert reporter.last_error == "HTTP 500: etcd is away"
    api.error = None
    assert reporter.write(words, now=START + 1000)
    assert reporter.last_error is None


def test_the_server_may_ask_for_a_longer_pause(api: Api, words: dict[str, Any]) -> None:
    api.error = ApiError(429, {"message": "slow down"}, retry_after_s=50.0)
    reporter = _reporter(api)
    reporter.write(words, now=START)
    api.error = None
    assert not reporter.write(words, now=START + 49)
    assert reporter.write(words, now=START + 51)


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_does_not_silence_the_agent(
    jump: float, api: Api, words: dict[str, Any]
) -> None:
    reporter = _reporter(api)
    reporter.write(words, now=START)
    now = START + jump
    beats = [s for s in range(0, 800, 10) if reporter.write(_later(words, now + s), now=now + s)]
    assert len(beats) >= 2
    assert beats[0] <= HEARTBEAT_S * 1.2


def test_unreachable_is_an_error_like_others(api: Api, words: dict[str, Any]) -> None:
    api.error = Unreachable("connection refused")
    reporter = _reporter(api)
    assert not reporter.write(words, now=START)
    assert reporter.last_error == "connection refused"


def test_substance_has_no_time(words: dict[str, Any]) -> None:
    assert content(words) == content(_later(words, START + 5))
    assert content(words) != content(_later(words, START, message="other"))
