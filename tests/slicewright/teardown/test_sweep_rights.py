"""The rights of the sweep are those that its calls need, and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slicewright import cli
from slicewright.infra import plan
from slicewright.infra.plan import EksFleetPlan, GkeFleetPlan
from slicewright.rehearsal.clouds.core import call_log
from slicewright.teardown import sweep_rights
from slicewright.teardown.sweep.life import Life
from slicewright.teardown.sweep.passes import Sweep
from slicewright.teardown.teardown import shown_in
from tests.rights_used import right_of
from tests.slicewright.teardown.stacks import World, ingress, launch, service
from tests.slicewright.teardown.test_teardown import FAST, INGRESSES, use, use_more

STACKS = Path(__file__).resolve().parents[3] / "stacks"


def fleet_of(stack: str) -> EksFleetPlan | GkeFleetPlan:
    found = plan.read_file(STACKS / f"Pulumi.{stack}.yaml", name=stack)
    assert isinstance(found, EksFleetPlan | GkeFleetPlan)
    return found


@pytest.fixture(params=[("on_eks", "eks-a100"), ("on_gke", "gke-h100")])
def swept(
    clouds_over_http: None, request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[str, set[str]]:
    """The stack of such a cloud, and the rights that a sweep of every kind has used."""
    fixture, stack = request.param
    world: World = request.getfixturevalue(fixture)
    use(world)
    use_more(world)
    if stack == "eks-a100":
        aws = request.getfixturevalue("aws_of_eks")
        aws.role("other", "ec2.amazonaws.com")
        launch(aws, role="other")
    else:
        internal = {"networking.gke.io/load-balancer-type": "Internal"}
        world.api.objects.add_object("/api/v1/services", service("inside", **internal))
        world.api.objects.add_object(INGRESSES, ingress("web", "vllm"))
    all_of_it = replace(FAST, disks="delete", logs="delete", unproven="delete")
    world.pulumi.destroy(without_cluster=False, show=print, meanwhile=lambda: None)
    teardown = world.teardown(all_of_it)
    looked = teardown.look()
    before = len(call_log.read(tmp_path))
    sweep = Sweep(world.account, teardown._permission(listed=shown_in(looked)))
    life = Life(networks=frozenset({"projects/acme/global/networks/net"}))
    clock = world.clocks.clock
    report = sweep.until_clean(life, wait_s=60.0, clock=clock.now, sleep=clock.sleep)
    assert report.clean, report
    return stack, {right_of(c.service, c.operation) for c in call_log.read(tmp_path)[before:]}


def test_each_right_has_a_call_or_a_reason(swept: tuple[str, set[str]]) -> None:
    stack, used = swept
    needs = sweep_rights.needs(fleet_of(stack))
    assert used == {need.right for need in needs if need.why is None}


@pytest.mark.parametrize("stack", ["gke-h100", "eks-a100"])
def test_the_command_writes_them(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(STACKS / f"Pulumi.{stack}.yaml")
    assert cli.main(["rights", file, "--destroy"]) == cli.VERIFIED
    document = json.loads(capsys.readouterr().out)
    needs = {need.right for need in sweep_rights.needs(fleet_of(stack))}
    if stack == "gke-h100":
        assert {*document["includedPermissions"]} == needs
        return
    listed = set()
    for statement in document["Statement"]:
        actions = statement["Action"]
        actions = [actions] if isinstance(actions, str) else actions
        listed |= {*actions}
        if any(":Delete" in action for action in actions):
            assert "Condition" in statement or statement["Resource"] != "*"
    assert listed == needs
