"""What Prometheus answers to the queries by which replicas are counted: by the real promtool."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import manifests
from tests.infra.plan.test_pod_autoscaling import AWAKE, VLLM, scaled

POD_A = 'namespace="default",pod="tritonserver-7d9c5b6f4d-abcde"'
POD_B = 'namespace="default",pod="tritonserver-7d9c5b6f4d-fghij"'
MODEL = 'model="densenet_onnx"'
Series = Mapping[str, str]
"""Selector -> values, one each 10 s, as promtool writes them."""


@pytest.fixture(scope="module")
def promtool(one_tool: Callable[[str], Path]) -> Path:
    return one_tool("promtool")


def queue(pod: str, *, waited_us: str, answered: str, model: str = MODEL) -> Series:
    return {
        f"nv_inference_queue_duration_us{{{pod},{model}}}": waited_us,
        f"nv_inference_request_success{{{pod},{model}}}": answered,
    }


def answer(promtool: Path, tmp_path: Path, query: str, series: Series) -> float | None:
    """Its one value after five minutes; None without one. Fails for several."""
    if _told(promtool, tmp_path, query, series, expected=[]) == "":
        return None
    # What is expected is never so: promtool says what it got.
    told = _told(promtool, tmp_path, query, series, expected=[{"labels": "{}", "value": -1}])
    (got,) = (line.partition("got:")[2].strip() for line in told.splitlines() if "got:" in line)
    labels, _, value = got.strip('"').partition(" ")
    assert labels == "{}", got
    return float(value)


def _told(
    promtool: Path,
    tmp_path: Path,
    query: str,
    series: Series,
    *,
    expected: list[dict[str, Any]],
) -> str:
    """What promtool says of a query that has another answer; empty where it has this one."""
    asked = {"expr": query, "eval_time": "5m", "exp_samples": expected}
    test: dict[str, Any] = {
        "interval": "10s",
        "input_series": [{"series": name, "values": v} for name, v in series.items()],
        "promql_expr_test": [asked],
    }
    file = tmp_path / "test.json"
    file.write_text(json.dumps({"tests": [test]}))
    ran = subprocess.run(
        [promtool, "test", "rules", file], capture_output=True, text=True, check=False
    )
    return "" if ran.returncode == 0 else ran.stderr


def test_the_mean_is_of_all_requests_not_of_the_replicas(promtool: Path, tmp_path: Path) -> None:
    """One replica answers nine times as many requests, which wait a tenth as long."""
    series = {
        **queue(POD_A, waited_us="0+90000x60", answered="0+90x60"),
        **queue(POD_B, waited_us="0+100000x60", answered="0+10x60"),
    }
    query = manifests.scaling_query(scaled())
    assert answer(promtool, tmp_path, query, series) == pytest.approx(1900)


def test_an_idle_server_has_no_queue(promtool: Path, tmp_path: Path) -> None:
    series = queue(POD_A, waited_us="5000x60", answered="70x60")
    assert answer(promtool, tmp_path, manifests.scaling_query(scaled()), series) == 0


def test_a_server_that_is_not_scraped_has_no_value(promtool: Path, tmp_path: Path) -> None:
    query = manifests.scaling_query(scaled())
    assert answer(promtool, tmp_path, query, {}) is None
    gone = queue(POD_A, waited_us="0+9000x10 stale", answered="0+9x10 stale")
    assert answer(promtool, tmp_path, query, gone) is None


def test_a_restart_gives_no_negative_time(promtool: Path, tmp_path: Path) -> None:
    series = queue(POD_A, waited_us="0+10000x28 0+10000x32", answered="0+10x28 0+10x32")
    found = answer(promtool, tmp_path, manifests.scaling_query(scaled()), series)
    assert found == pytest.approx(1000)


def test_a_single_slow_request_counts_for_less_than_its_time(
    promtool: Path, tmp_path: Path
) -> None:
    """One in 30 s: below the tenth of a request a second that it is divided by at least."""
    series = queue(POD_A, waited_us="0x28 90000x32", answered="0x28 1x32")
    found = answer(promtool, tmp_path, manifests.scaling_query(scaled()), series)
    assert found is not None
    assert found < 90_000


def pending(waiting: str, model: str = MODEL) -> Series:
    return {f"nv_inference_pending_request_count{{{POD_A},{model}}}": waiting}


WINDOW_US = 30e6


def test_requests_that_wait_while_none_is_answered_have_waited_as_long_as_the_window(
    promtool: Path, tmp_path: Path
) -> None:
    """Each takes longer than the window, or the server hangs: its counters stand still."""
    still = queue(POD_A, waited_us="5000x60", answered="70x60")
    query = manifests.scaling_query(scaled())
    assert answer(promtool, tmp_path, query, {**still, **pending("3x60")}) == WINDOW_US
    assert answer(promtool, tmp_path, query, {**still, **pending("0x60")}) == 0
    # Only some of its samples, as of an idle server that is asked now and then.
    assert answer(promtool, tmp_path, query, {**still, **pending("0x28 3x31")}) == 0
    other = pending("3x60", model='model="other"')
    assert answer(promtool, tmp_path, query, {**still, **other}) == 0


def test_requests_that_wait_add_nothing_while_others_are_answered(
    promtool: Path, tmp_path: Path
) -> None:
    series = queue(POD_A, waited_us="0+10000x60", answered="0+10x60")
    query = manifests.scaling_query(scaled())
    assert answer(promtool, tmp_path, query, {**series, **pending("9x60")}) == 1000


def test_pending_requests_without_counters_give_no_value(promtool: Path, tmp_path: Path) -> None:
    query = manifests.scaling_query(scaled())
    assert answer(promtool, tmp_path, query, pending("9x60")) is None


def test_other_models_and_other_workloads_do_not_count(promtool: Path, tmp_path: Path) -> None:
    other = 'namespace="default",pod="tritonserver-teslat4-7d9c5b6f4d-abcde"'
    elsewhere = 'namespace="ai",pod="tritonserver-7d9c5b6f4d-abcde"'
    slow = {"waited_us": "0+990000x60", "answered": "0+10x60"}
    series = {
        **queue(POD_A, waited_us="0+10000x60", answered="0+10x60"),
        **queue(POD_A, **slow, model='model="other"'),
        **queue(other, **slow),
        **queue(elsewhere, **slow),
    }
    query = manifests.scaling_query(scaled())
    assert answer(promtool, tmp_path, query, series) == pytest.approx(1000)
    every = manifests.scaling_query(scaled(("model", None)))
    assert answer(promtool, tmp_path, every, series) == pytest.approx((10000 + 990000) / 20)


def test_pods_of_a_deployment_with_a_long_name_are_matched(promtool: Path, tmp_path: Path) -> None:
    name = "a" * 52
    pod = f'namespace="default",pod="{name}-7d9c5abcde"'
    query = manifests.scaling_query(scaled(("..name", name)))
    series = queue(pod, waited_us="0+10000x60", answered="0+10x60")
    assert answer(promtool, tmp_path, query, series) == pytest.approx(1000)


LLM = 'namespace="ai",pod="llm-7d9c5b6f4d-abcde"'


def test_requests_that_wait_are_added_up(promtool: Path, tmp_path: Path) -> None:
    second = LLM.replace("abcde", "fghij")
    series = {f"vllm:num_requests_waiting{{{LLM}}}": "3x60"}
    series |= {f"vllm:num_requests_waiting{{{second}}}": "5x60"}
    query = manifests.scaling_query(scaled(*AWAKE, of=VLLM))
    assert answer(promtool, tmp_path, query, series) == 8


@pytest.mark.parametrize("name", ["kv_cache_usage_perc", "gpu_cache_usage_perc"])
def test_memory_in_use_is_in_percent_under_either_name(
    name: str, promtool: Path, tmp_path: Path
) -> None:
    usage = (*AWAKE, ("metric", "cache-usage"), ("target", 80))
    query = manifests.scaling_query(scaled(*usage, of=VLLM))
    series = {f"vllm:{name}{{{LLM}}}": "0.75x60"}
    assert answer(promtool, tmp_path, query, series) == pytest.approx(75)


def test_a_sleeping_workload_has_an_empty_queue_and_one_without_metrics_no_value(
    promtool: Path, tmp_path: Path
) -> None:
    """That Prometheus knows of no pod is no sign that there is none: it may have lost them."""
    query = manifests.scaling_query(scaled(of=VLLM))
    has = 'kube_deployment_status_replicas{namespace="ai",deployment="llm"}'
    other = 'kube_deployment_status_replicas{namespace="ai",deployment="llm-2"}'
    assert answer(promtool, tmp_path, query, {has: "0x60", other: "3x60"}) == 0
    assert answer(promtool, tmp_path, query, {has: "3x60", other: "0x60"}) is None
    assert answer(promtool, tmp_path, query, {}) is None
    assert answer(promtool, tmp_path, query, {f"up{{{LLM}}}": "0x60"}) is None
    waiting = {has: "1x60", f"vllm:num_requests_waiting{{{LLM}}}": "4x60"}
    assert answer(promtool, tmp_path, query, waiting) == 4


@pytest.mark.parametrize(("asked", "wakes"), [("0x60", 0), ("7x60", 1)])
def test_the_waking_query_is_one_or_zero(
    asked: str, wakes: int, promtool: Path, tmp_path: Path
) -> None:
    query = manifests.waking_query("sum(gateway_requests)")
    assert answer(promtool, tmp_path, query, {"gateway_requests": asked}) == wakes
    assert answer(promtool, tmp_path, query, {}) is None
