"""Whatever drivers, kernels and other people's objects say: reports, metrics and terminals get
plain text, within the limits that the API server checks.
"""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis import names
from slicewright.apis.custom_resources import crds
from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.node_agent import cli
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.commands import show
from slicewright.node_agent.nvml.observed import (
    Engines,
    Failure,
    MigDevice,
    Observation,
    ObservedGpu,
    OfferedProfile,
    Vitals,
    Xid,
)
from slicewright.node_agent.reporting import report
from slicewright.node_agent.reporting.metrics import Metrics
from slicewright.node_agent.verdict.verify import verify
from tests.nasty import NASTY, obeyed, texts
from tests.properties import examples

ENGINES = Engines(decoders=1, encoders=0, jpeg=1, ofa=0)
failures = st.none() | st.builds(
    Failure, call=texts, code=st.sampled_from([4, 15, 999]), text=texts
)


@st.composite
def gpus(draw: st.DrawFn, index: int) -> ObservedGpu:
    device = MigDevice(
        uuid=draw(texts),
        gpu_instance=1,
        compute_instance=0,
        gpu_slices=1,
        compute_slices=1,
        memory_mib=9984,
        multiprocessors=16,
        engines=ENGINES,
        name=draw(texts),
    )
    offered = OfferedProfile(
        id=19,
        name=draw(texts),
        suffix="",
        slices=1,
        memory_mib=9984,
        multiprocessors=16,
        engines=ENGINES,
    )
    return ObservedGpu(
        index=index,
        uuid=draw(texts),
        model=draw(texts) * draw(st.sampled_from([1, 9])),
        mig="enabled",
        mig_pending="enabled",
        devices=(device,),
        offered=(offered,),
        repairs=draw(st.sampled_from([(), ("reset the GPU",)])),
        vitals=Vitals(slowdowns=(draw(texts),), recovery_action=draw(texts)),
        utilization_failure=draw(failures),
        xids=(Xid(number=79, at_s=1.0, text=draw(texts)),),
        failure=draw(failures),
    )


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    return Observation(
        driver=draw(texts) * draw(st.sampled_from([1, 9])),
        cuda=draw(texts),
        gpus=tuple(draw(gpus(index)) for index in range(draw(st.integers(0, 3)))),
        failure=draw(failures),
    )


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [s for pair in value.items() for part in pair for s in _strings(part)]
    if isinstance(value, list):
        return [s for part in value for s in _strings(part)]
    return [value] if isinstance(value, str) else []


def _too_long(value: Any, schema: Any) -> list[str]:
    if isinstance(value, dict):
        parts = schema.get("properties", {})
        return [t for key, part in value.items() for t in _too_long(part, parts.get(key, {}))]
    if isinstance(value, list):
        return [t for part in value for t in _too_long(part, schema.get("items", {}))]
    return [value] if len(str(value)) > schema.get("maxLength", 10**9) else []


@settings(max_examples=examples(60))
@given(observations())
def test_reports_and_metrics_are_plain_and_within_the_limits(observation: Observation) -> None:
    desired = Desired(
        pool="p",
        partitioner="none",
        gpu_count=2,
        gpu_models=("NVIDIA H100 80GB HBM3",),
        gpus=(DesiredGpu(index="all", mig=True, instances={"1g.10gb": 1}),),
        resources={},
    )
    node = NodeState(name="n1", uid="u1", boot_id="b1", capacity={}, allocatable={})
    if observation.failure:
        observation = replace(observation, gpus=())
    verdict = verify(desired, observation, node)
    assert obeyed(verdict.message) == set()
    body = report.body(verdict, observation, node, pool="p", layout_hash="f" * 64, at=1.0)
    assert [s for s in _strings(body) if obeyed(s)] == []
    assert len(json.dumps(body)) <= report.MAX_BYTES
    (schema,) = [
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for crd in crds()
        if crd["spec"]["names"]["kind"] == names.REPORT_KIND
    ]
    assert _too_long(body, schema) == []
    metrics = Metrics(desired)
    metrics.update(observation, verdict, node, took_s=0.1, at=1.0, thorough=True)
    assert obeyed(metrics.text) <= {"\n"}


def _run(*arguments: str) -> str:
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            cli.main(arguments)
        except SystemExit:
            pass
    return said.getvalue()


@pytest.mark.parametrize("options", [(), ("--json",), ("--layout",), ("GPU-" + NASTY,)])
def test_the_terminal_gets_plain_lines(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    nasty = ObservedGpu(
        index=0,
        uuid=f"GPU-{NASTY}",
        model=NASTY,
        mig="disabled",
        mig_pending="disabled",
        failure=Failure(call=NASTY, code=999, text=NASTY),
    )
    seen = Observation(driver=NASTY, cuda=NASTY, gpus=(nasty,))
    monkeypatch.setattr(show, "probe_once", lambda *_, **__: seen)
    said = _run("show", *options)
    assert said
    assert obeyed(said) <= {"\n"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "--desired", f"/no/such/{NASTY[:-1]}"),
        ("verify", f"0:{NASTY}"),
        ("watch", "--port", NASTY),
        (NASTY,),
        ("watch", NASTY, "--desired", "x"),
    ],
)
def test_errors_on_the_terminal_are_plain_lines(arguments: tuple[str, ...]) -> None:
    said = _run(*arguments)
    assert said
    assert obeyed(said) <= {"\n"}


def test_a_desired_state_with_control_characters_is_shown_plain(tmp_path: Path) -> None:
    file = tmp_path / "desired.json"
    file.write_text(json.dumps({"version": NASTY}), encoding="utf-8")
    said = _run("verify", "--desired", str(file), "--silicon-only")
    assert said
    assert obeyed(said) <= {"\n"}
