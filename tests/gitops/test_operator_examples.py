"""The examples for Pulumi's Kubernetes operator, against the fields of its definitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.gitops.operator_shapes import SHAPES
from tests.gitops.pipelines import ROOT
from tests.gitops.shapes import wrong

FILES = sorted((ROOT / "gitops" / "pulumi-operator").glob("*.yaml"))
DOCUMENTS = [one for file in FILES for one in yaml.safe_load_all(file.read_text())]
THE_OPERATORS = [one for one in DOCUMENTS if "pulumi.com" in one["apiVersion"]]


def named(kind: str, name: str) -> Mapping[str, Any]:
    (found,) = (one for one in DOCUMENTS if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return dict(found)


def the_stacks() -> list[Any]:
    return [one for one in THE_OPERATORS if one["kind"] == "Stack"]


def test_each_kind_of_the_operator_has_an_example_and_no_field_that_it_lacks() -> None:
    assert {(one["apiVersion"], one["kind"]) for one in THE_OPERATORS} == SHAPES.keys()
    for one in THE_OPERATORS:
        shape = SHAPES[one["apiVersion"], one["kind"]]
        assert list(wrong(one, shape, one["metadata"]["name"])) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"stack": None}, "x.spec.stack: is None, which is no str"),
        ({"resyncFrequencySeconds": True}, "is True, which is no int"),
        ({"envs": ["old"]}, "x.spec.envs: no such field"),  # deprecated
        ({"prerequisites": [{}]}, "x.spec.prerequisites[0].name: is missing"),
        ({"workspaceReclaimPolicy": "Keep"}, "not one of Delete, Retain"),
    ],
)
def test_a_wrong_field_is_found(change: dict[str, Any], said: str) -> None:
    stack = named("Stack", "fleet-production")
    changed = {**stack, "spec": {**stack["spec"], **change}}
    (found,) = wrong(changed, SHAPES["pulumi.com/v1", "Stack"], "x")
    assert said in found


def test_a_stack_of_the_operator_never_ends_a_fleet_or_makes_one_by_a_slip() -> None:
    for stack in the_stacks():
        spec = stack["spec"]
        assert not spec.get("destroyOnFinalize", False)
        assert len(spec["stack"]) <= 42
        # Each pass takes the stack's lock, and asks the clouds about every resource.
        assert spec["resyncFrequencySeconds"] >= 3600
        assert sum(key in spec for key in ("projectRepo", "programRef", "fluxSource")) == 1
        if "projectRepo" in spec:
            assert spec["useLocalStackOnly"]
            assert ("branch" in spec) != ("commit" in spec)


def test_every_reference_of_an_example_is_in_the_examples() -> None:
    stacks = {one["metadata"]["name"] for one in the_stacks()}
    for stack in the_stacks():
        assert {one["name"] for one in stack["spec"].get("prerequisites", ())} <= stacks
        named("ServiceAccount", stack["spec"]["serviceAccountName"])
        if "programRef" in stack["spec"]:
            named("Program", stack["spec"]["programRef"]["name"])
    (binding,) = (one for one in DOCUMENTS if one["kind"] == "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == "system:auth-delegator"
    assert {(subject["name"], subject["namespace"]) for subject in binding["subjects"]} == {
        (account["metadata"]["name"], account["metadata"]["namespace"])
        for account in DOCUMENTS
        if account["kind"] == "ServiceAccount"
    }


def test_only_stacks_that_change_the_fleet_use_the_writing_account() -> None:
    """A look for drift reads, and what needs the fleet does not change it."""
    fleet = "fleet-production"
    for stack in the_stacks():
        spec, name = stack["spec"], stack["metadata"]["name"]
        changes = spec["stack"] == "production" and not spec.get("preview", False)
        assert changes == (name == "fleet-production")
        assert (spec["serviceAccountName"] == fleet) == changes, name
    drift = named("Stack", "fleet-production-drift")["spec"]["serviceAccountName"]
    assert drift.endswith("-preview")
    roles = {
        named("ServiceAccount", account)["metadata"]["annotations"][
            "iam.gke.io/gcp-service-account"
        ]
        for account in (fleet, drift, "models")
    }
    assert len(roles) == 3, "each account has a role of its own"
    # For `destroy` and `recover`.
    by_hand = named("Workspace", "fleet-production-by-hand")["spec"]["serviceAccountName"]
    assert by_hand == fleet


def test_a_program_refers_to_its_own_resources_only() -> None:
    program = named("Program", "models")["program"]
    used = set(re.findall(r"\$\{(\w+)", str(program)))
    assert used
    assert used <= program["resources"].keys()


def test_a_look_for_drift_changes_nothing() -> None:
    spec = named("Stack", "fleet-production-drift")["spec"]
    assert spec["preview"]
    assert spec["expectNoRefreshChanges"]
    assert spec["stack"] == named("Stack", "fleet-production")["spec"]["stack"]


def test_a_workspace_finds_program_and_dependencies() -> None:
    """`pulumi install` of toolchain pip reads requirements.txt only, and installs no project."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    assert project["runtime"]["options"]["toolchain"] == "pip"
    lines = [
        line for line in (ROOT / "requirements.txt").read_text().splitlines() if line[0] != "#"
    ]
    assert lines == ["-r requirements.lock"]
    engine = re.search(r"^pulumi==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert engine is not None
    for one in THE_OPERATORS:
        found = one.get("spec", {})
        images = [
            found.get("image"),
            found.get("workspaceTemplate", {}).get("spec", {}).get("image"),
        ]
        for image in filter(None, images):
            assert f":{engine[1]}-" in image, "engine and SDK are of one version"
    by_hand = {
        e["name"]: e["value"] for e in named("Workspace", "fleet-production-by-hand")["spec"]["env"]
    }
    stack = named("Stack", "fleet-production")["spec"]["envRefs"]["PYTHONPATH"]["literal"]["value"]
    assert by_hand["PYTHONPATH"] == stack
