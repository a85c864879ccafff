"""Lives of a stack drawn from a seed, with the real engine and its plugins: the cluster leaves
something, calls of the cloud fail, the destruction is killed, and in the end nothing is left.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core import call_log
from slicewright.rehearsal.clouds.core.call_log import LoggedCall
from slicewright.rehearsal.clouds.core.fake_control_planes import fake_nodes
from slicewright.rehearsal.clouds.gcp.account import write_account as write_google_account
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.teardown.subject import Cloud
from tests.infra.cloud_engine import PROJECT, Ran
from tests.infra.on_engine.killed_engine import KilledEngine, killed_engine
from tests.infra.on_engine.test_killed_engine import FLEETS
from tests.slicewright.teardown.chances import break_calls, leave

pytestmark = pytest.mark.long(
    "such lives without the engine: tests/slicewright/teardown/test_seeded_runs.py"
)

SEEDS: Final = range(20)
"""Half of them on each cloud."""
FEW: Final = (0, 13)
"""Of `make test`: the second is killed, and has an Ingress."""
CLOUDS: Final[tuple[Cloud, ...]] = ("eks", "gke")
_ATTEMPTS: Final = 25
"""Faults, of which each ends after four calls at most, and kills leave a good one among these."""
_KILLED: Final = "killed by this test: "
_SWEPT: Final = ("load balancer", "forwarding rule", "disk", "snapshot")
_LEFTOVERS_S: Final = 2.0
"""How long interfaces of load balancers, which nobody but the cloud can delete, hold a network."""


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(FEW, id="few"),
        pytest.param([s for s in SEEDS if s not in FEW], id="all", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(3600)
def test_nothing_is_left_of_a_life_whatever_fails_on_the_way(
    clouds_over_http: None, seeds: list[int], tmp_path: Path, toolchain: Toolchain
) -> None:
    said: list[str] = []
    for seed in seeds:
        cloud = CLOUDS[seed % len(CLOUDS)]
        directory = tmp_path / str(seed)
        directory.mkdir()
        with killed_engine(directory, toolchain, FLEETS[cloud]) as stack:
            began = time.monotonic()
            said.append(_life(stack, cloud, random.Random(f"{cloud} {seed}")))
            attempts, kills = (said[-1].count(f"{_KILLED}{only}") for only in ("", "True"))
            took_s = time.monotonic() - began
            faults = sum(map(_is_fault, call_log.read(directory)))
            # Shown by pytest -s: a life waits for its cloud, and takes half a minute.
            print(
                f"{cloud} {seed}: {attempts} runs, {kills} of them killed, {faults} calls failed, "
                f"{took_s:.0f} s"
            )
            # Else the seed would show nothing.
            assert faults
    # Nor would all of them together.
    assert any(f"deleted {kind}" in one for one in said for kind in _SWEPT), said
    assert any(f"{_KILLED}True" in one for one in said), said


def _is_fault(call: LoggedCall) -> bool:
    """None: the connection broke, by a fault, or as the engine was killed."""
    return call.code in (None, 429, 500, 503) or "Throttling" in (call.error or "")


def _life(stack: KilledEngine, cloud: Cloud, chance: random.Random) -> str:
    """What every attempt said."""
    root = stack.engine.directory.parent
    write_account(root, **{**PROMPT, "leftovers_s": _LEFTOVERS_S})
    write_google_account(root, {"leftovers_s": _LEFTOVERS_S})
    file = _stack_file(stack, cloud)
    stack.undisturbed("up")
    leave(fake_nodes(root, _cluster(cloud)), cloud, chance, project=PROJECT)
    break_calls(root, cloud, chance)
    said = []
    for _ in range(_ATTEMPTS):
        at = chance.randint(1, 40) if chance.random() < 0.5 else None
        stack.killer.arm(at, carried_out=chance.random() < 0.7)
        ran = _destroy(stack, file)
        stack.killer.settle()
        killed = stack.killer.struck
        said.append(f"{_KILLED}{killed}, exit code {ran.code}\n{ran.output}")
        stack.killer.arm()
        if killed:
            # Its own process has the mark of the engine's, as it is one command to its user.
            assert ran.code == -signal.SIGKILL, said[-1]
            assert stack.engine.cloud.tasks.wait(120)
            stack.as_documented()
        elif ran.code == 0:
            break
    left = stack.inventory()
    if cloud == "gke":
        # Google's CSI driver gives them no label, and those of a disk that is gone prove nothing.
        left = {kind: count for kind, count in left.items() if kind != "compute.snapshot"}
    assert (ran.code, left) == (0, {}), "\n\n".join(said)
    return "\n\n".join(said)


def _destroy(stack: KilledEngine, file: Path) -> Ran:
    """No API server answers here: what is in the cluster stays for the sweep."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "slicewright.cli", "destroy", "-s", "dev", "--yes"),
            *("--file", str(file), "--disks", "delete", "--logs", "delete"),
            *("--unproven", "delete", "--unreachable", "--wait", "1"),
        ],
        cwd=stack.engine.directory,
        env=dict(stack.engine.variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    return Ran(done.returncode, done.stdout)


def _stack_file(stack: KilledEngine, cloud: Cloud) -> Path:
    config: dict[str, Any] = {"slicewright:fleet": FLEETS[cloud], "gcp:project": PROJECT}
    file = stack.engine.directory / "fleet.yaml"
    file.write_text(yaml.safe_dump(json.loads(json.dumps({"config": config}))))
    return file


def _cluster(cloud: Cloud) -> str:
    cluster: Mapping[str, Any] = FLEETS[cloud]["cluster"]
    return str(cluster["name"])
