"""eks-a100 while the registry of its agents and controller refuses: what `up` and `slicewright
status` say meanwhile, and that `up` ends well when the registry serves again.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from slicewright.rehearsal.clouds.core.fault_file import Registry
from slicewright.rehearsal.scenario import faults
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment

pytestmark = [pytest.mark.rehearsal, pytest.mark.timeout(1800)]

REGISTRY, POOL = "public.ecr.aws", "demo-gpu-workers"
LINES: list[str] = []


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment], simulated_programs: None) -> Engine:
    engine = Engine(make_environment("s1-registry"), "eks-a100", LINES.append)
    assert engine.init().code == 0
    return engine


def said(words: str, timeout_s: float = 900) -> None:
    """Waits until a line of `up` has the words."""
    deadline = time.monotonic() + timeout_s
    while not any(words in line for line in LINES):
        assert time.monotonic() < deadline, f"up has not said {words!r}: {LINES[-30:]}"
        time.sleep(0.5)


def status(engine: Engine) -> str:
    (kubeconfig,) = engine.environment.kubeconfigs().values()
    asked = subprocess.run(
        [sys.executable, "-m", "slicewright.cli", "status", "--kubeconfig", str(kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout + asked.stderr


def test_up_shows_the_registrys_answer_and_continues_when_it_serves(engine: Engine) -> None:
    environment = engine.environment
    faults.inject(environment, Registry(registry=REGISTRY, answer="too-many-requests"))
    with ThreadPoolExecutor(max_workers=1) as beside:
        up = beside.submit(engine.up)
        try:
            # The controller's own pods: in the words of Pulumi's provider.
            said("429 Too Many Requests")
            assert f"{REGISTRY} answers 429, too many pulls" in status(engine)
            # In place of the other, so that no agent gets its image in between.
            faults._write(environment, [Registry(registry=REGISTRY, answer="not-found", pool=POOL)])
            # The agents, by the controller, which has its image now.
            said(f"{REGISTRY} has no such image")
            seen = status(engine)
            assert f"{REGISTRY} has no such image" in seen
            assert "correct `image`, or copy the image to this registry" in seen
        finally:
            faults.repair(environment)
        ended = up.result(timeout=900)
    assert ended.code == 0, ended.output
