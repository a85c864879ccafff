"""What an adopted GPU operator still names of a stack that is destroyed, or is about to be."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, Unreachable
from slicewright.live.access import NoCluster
from slicewright.teardown.adopted_operator import AdoptedOperator

POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
MAPS = "/api/v1/namespaces/nvidia/configmaps/"
LAYOUTS, CONFIGS = "mig-layouts-0123abcd", "plugin-configs-89ef4567"
OURS: dict[str, Any] = {
    "mig": {"strategy": "mixed"},
    "migManager": {"config": {"name": LAYOUTS, "default": "all-disabled"}},
    "devicePlugin": {"config": {"name": CONFIGS, "default": "not.shared"}},
}


def said(spec: dict[str, Any] | None, *there: str, error: Exception | None = None) -> list[str]:
    """there: names of ConfigMaps."""
    objects: dict[str, Any] = {f"{MAPS}{name}": {} for name in there}
    if spec is not None:
        objects[POLICY] = {"spec": spec}

    class Client:
        def get(self, path: str) -> Any:
            if error is not None:
                raise error
            if path not in objects:
                raise ApiError(404, {"reason": "NotFound"})
            return objects[path]

    client: Any = Client()
    asked = AdoptedOperator(policy="cluster-policy", namespace="nvidia", connect=lambda: client)
    return list(asked.dangling())


@pytest.mark.parametrize(
    ("there", "when"), [((), "that no longer exist"), ((LAYOUTS,), "this command deletes")]
)
def test_files_that_it_names_are_listed_with_the_command_that_sets_them_back(
    there: tuple[str, ...], when: str
) -> None:
    (line,) = said(OURS, *there)
    assert when in line
    assert f"spec.migManager.config.name: {LAYOUTS}" in line
    command = shlex.split(line[line.index("kubectl") :])
    assert json.loads(command[-1]) == {
        "spec": {
            "migManager": {"config": {"name": ""}},
            "devicePlugin": {"config": {"name": "", "default": ""}},
        }
    }


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"migManager": {"config": {"name": ""}}, "devicePlugin": {"config": {}}},
        {"migManager": {"config": {"name": "their-own"}}, "devicePlugin": None},
        None,
    ],
    ids=["none", "empty", "their own", "no ClusterPolicy"],
)
def test_objects_of_others_are_not_listed(spec: dict[str, Any] | None) -> None:
    assert said(spec) == []


def test_sharing_alone_leaves_mig_managers_settings_unchanged() -> None:
    (line,) = said({"devicePlugin": OURS["devicePlugin"], "migManager": {"config": {"name": "m"}}})
    assert "migManager" not in line


@pytest.mark.parametrize("error", [Unreachable("refused"), NoCluster("no context x")])
def test_a_cluster_that_does_not_answer_is_not_taken_for_one_without_them(
    error: Exception,
) -> None:
    (line,) = said(OURS, error=error)
    assert "cannot tell whether" in line
