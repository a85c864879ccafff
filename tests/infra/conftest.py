"""What the tests of the program share: stack files, and a recorder in the engine's place."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra import delivery, plan, program, spec, values

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Made:
    """One resource as the program asked for it."""

    type: str
    name: str
    inputs: Mapping[str, Any]
    provider: str
    read: str
    """Id of what is only read; empty for what is created."""


@dataclass
class Recorder(pulumi.runtime.Mocks):
    """Answers as a cloud would that gives back what it is asked for, and what it makes up itself."""

    status: Mapping[str, Any] | None = None
    preview: bool = False
    made: list[Made] = field(default_factory=list)

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.made.append(Made(args.typ, args.name, args.inputs, args.provider or "", args.resource_id or ""))
        outputs = dict(args.inputs)
        if self.preview and args.custom and not args.resource_id:
            return "", outputs
        if args.typ == "gcp:container/cluster:Cluster":
            outputs |= {"endpoint": "127.0.0.1:6443", "masterAuth": {"clusterCaCertificate": "Q0E="}}
        if args.typ == "aws:eks/cluster:Cluster":
            outputs |= {"endpoint": "https://127.0.0.1:6443", "certificateAuthority": {"data": "Q0E="}}
        if args.typ == "gcp:serviceaccount/account:Account":
            outputs |= {"email": f"{args.inputs['accountId']}@p.iam.gserviceaccount.com"}
        if args.typ.startswith("aws:iam/role:"):
            outputs |= {"arn": f"arn:aws:iam::1:role/{args.name}", "name": args.name}
        if args.typ.endswith(":GPUPool"):
            outputs |= {"status": self.status, "metadata": {"name": "p", "generation": 3}}
        return args.resource_id or f"{args.name}-id", outputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        raise AssertionError(f"the program asks the cloud: {args.token}; a first preview cannot answer")


# A recording is read, never changed: one per stack serves all tests.
_RECORDED: dict[tuple[str, bool, str], list[Made]] = {}
VERIFIED: Mapping[str, Any] = {
    "conditions": [{"type": "Verified", "status": "True", "observedGeneration": 3, "reason": "AllVerified"}]
}


@pytest.fixture(autouse=True)
def _no_ambient_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    # The Kubernetes provider takes these as inputs.
    for name in list(os.environ):
        if name == "KUBECONFIG" or name.startswith("PULUMI_K8S_"):
            monkeypatch.delenv(name)


@pytest.fixture
def stack() -> Callable[[str], dict[str, Any]]:
    """The config of a committed stack file."""

    def read(name: str) -> dict[str, Any]:
        config: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text())["config"]
        return config

    return read


@pytest.fixture
def zipapps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small zipapps: what is in them is the delivery's own test."""
    for name in ("node_agent", "fleet_controller"):
        app = delivery.Zipapp(name=f"{name}.pyz", content=b"zip", sources_hash="0123456789abcdef")
        monkeypatch.setattr(delivery, name, lambda app=app: app)


@pytest.fixture
def record(zipapps: None) -> Callable[..., list[Made]]:
    """Deploys a committed stack, or a fleet in YAML, to a recorder and gives what was asked for, in any order."""

    def run(name: str, *, fleet: str = "", preview: bool = False, status: Mapping[str, Any] | None = VERIFIED) -> list[Made]:
        key = (name + fleet, preview, json.dumps(status))
        if key not in _RECORDED:
            raw = yaml.safe_load(fleet)
            planned = (
                plan.read(json.dumps(raw), spec.Source("test", raw))
                if fleet
                else plan.read_file(ROOT / "stacks" / f"Pulumi.{name}.yaml")
            )
            _RECORDED[key] = deploy(planned, name, preview, status)
        return _RECORDED[key]

    def deploy(fleet: plan.FleetPlan, name: str, preview: bool, status: Mapping[str, Any] | None) -> list[Made]:
        recorder = Recorder(status=status, preview=preview)
        pulumi.runtime.set_mocks(recorder, project="slicewright", stack=name, preview=preview)
        pulumi.runtime.set_all_config({"gcp:project": "slicewright-s0"})
        pulumi.runtime.test(lambda: program.deploy(fleet))()  # type: ignore[no-untyped-call]
        assert len({(m.type, m.name) for m in recorder.made}) == len(recorder.made), "two resources of one URN"
        return recorder.made

    return run


@pytest.fixture
def mocked() -> Recorder:
    """The recorder as the engine of stack `x`; nothing is deployed yet."""
    asyncio.set_event_loop(asyncio.new_event_loop())
    recorder = Recorder()
    pulumi.runtime.set_mocks(recorder, project="slicewright", stack="x")
    return recorder


@pytest.fixture
def broken(tmp_path: Path) -> Callable[[str], str]:
    """What a stack file with this fleet, as YAML, is refused with."""

    def refuse(fleet: str) -> str:
        file = tmp_path / "Pulumi.broken.yaml"
        indented = "".join(f"    {line}\n" for line in fleet.splitlines())
        file.write_text(f"config:\n  slicewright:fleet:\n{indented}")
        with pytest.raises(spec.SpecError) as refused:
            plan.read_file(file, name="stacks/Pulumi.broken.yaml")
        return str(refused.value)

    return refuse


@pytest.fixture
def as_json() -> Callable[[Any], str]:
    return lambda data: json.dumps(data, sort_keys=True)


@pytest.fixture(scope="session")
def mig_parted() -> Path:
    """NVIDIA's mig-parted: from PATH, else from the rehearsal's toolchain."""
    if found := shutil.which("nvidia-mig-parted"):
        return Path(found)
    from rehearsal import toolchain

    return toolchain.ensure(print).mig_parted


@pytest.fixture
def check_config(mig_parted: Path, tmp_path: Path) -> Callable[[Any], None]:
    """NVIDIA's own parser accepts every layout of a mig-parted config."""

    def check(config: Any) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(values.as_yaml(config))
        for name in config["mig-configs"]:
            done = subprocess.run(
                [mig_parted, "assert", "--valid-config", "-f", file, "-c", name],
                capture_output=True,
                text=True,
                check=False,
                timeout=30,
            )
            assert done.returncode == 0, done.stdout + done.stderr

    return check
