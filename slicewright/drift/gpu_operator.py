"""Compares the declared GPU operator with the installed one. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slicewright.drift.findings import Comparison, Finding
from slicewright.infra import manifests
from slicewright.infra.plan import ExistingFleetPlan, FleetPlan
from slicewright.infra.stack_file import GpuOperator
from slicewright.live.objects import UnreadObject

INSTALLED_POLICY: Final = "cluster-policy"
"""The chart's name for it. Source: NVIDIA/gpu-operator chart, templates/clusterpolicy.yaml."""
_MOST_TEXT: Final = 80


@dataclass(frozen=True, kw_only=True)
class OperatorObjects:
    """The operator's objects in the cluster."""

    policy: Mapping[str, Any] | None
    """`spec` of its ClusterPolicy. None: there is no ClusterPolicy."""
    chart: str | None
    """The chart version of the deployed Helm release. None: there is no release. It is not asked
    for an adopted operator.
    """
    configs: Mapping[str, Mapping[str, str]]
    """Name -> data of our ConfigMaps that exist."""
    unread: tuple[UnreadObject, ...] = ()
    """Objects that exist but cannot be read. Nothing is known about them."""

    def is_unread(self, kind: str, name: str | None = None) -> bool:
        """True if an object of that kind, and of that name if given, could not be read."""
        return any(
            unread_object.kind == kind and name in (None, unread_object.name)
            for unread_object in self.unread
        )


def is_adopted(fleet: FleetPlan) -> bool:
    return fleet.operator is not None and fleet.operator.existing


def policy_name(fleet: FleetPlan) -> str:
    """fleet: must have an operator."""
    assert fleet.operator is not None
    return fleet.operator.cluster_policy if is_adopted(fleet) else INSTALLED_POLICY


def operator_drift(installed: OperatorObjects, fleet: FleetPlan, stack: str) -> list[Finding]:
    """fleet: must have an operator."""
    return [
        *_release(installed, fleet, stack),
        *_configs(installed, fleet, stack),
        *_policy(installed, fleet),
    ]


def _release(installed: OperatorObjects, fleet: FleetPlan, stack: str) -> Iterator[Finding]:
    operator = fleet.operator
    assert operator is not None
    if is_adopted(fleet) or installed.is_unread("Secret"):
        return
    where = f"Helm release {operator.release}"
    heal = f"pulumi up --refresh --stack {stack}"
    if installed.chart is None:
        yield _finding(where, "no revision is deployed", heal)
    elif operator.chart_path is None and _plain(installed.chart) != _plain(operator.chart_version):
        yield _finding(
            where,
            f"chart version: wanted {operator.chart_version}, found {installed.chart}",
            _upgraded(operator),
        )


def _configs(installed: OperatorObjects, fleet: FleetPlan, stack: str) -> Iterator[Finding]:
    assert fleet.operator is not None
    namespace = fleet.operator.namespace
    heal = f"pulumi up --refresh --stack {stack}"
    for file in manifests.operator_files(fleet):
        if installed.is_unread("ConfigMap", file.name):
            continue
        where = f"ConfigMap {namespace}/{file.name}"
        data = installed.configs.get(file.name)
        if data is None:
            yield _finding(where, "does not exist", heal)
        elif dict(data) != dict(file.data):
            yield _finding(
                where,
                "its content does not match the hash in its name",
                # The ConfigMap is immutable, so the change was a deletion and a recreation.
                f"kubectl -n {namespace} delete configmap {file.name} && {heal}",
            )


def _policy(installed: OperatorObjects, fleet: FleetPlan) -> Iterator[Finding]:
    name = policy_name(fleet)
    if installed.is_unread("ClusterPolicy"):
        return
    where = f"ClusterPolicy {name}"
    if installed.policy is None:
        yield _finding(where, "does not exist", _made_again(fleet))
        return
    files = manifests.operator_files(fleet)
    if isinstance(fleet, ExistingFleetPlan) and is_adopted(fleet):
        wrong = manifests.mismatches(installed.policy, fleet, files)
    else:
        wrong = manifests.changed_settings(installed.policy, fleet, files)
    if wrong:
        difference = "; ".join(
            f"spec.{mismatch.field}: wanted {_value_text(mismatch.required)}, "
            f"found {_value_text(mismatch.current)}"
            for mismatch in wrong
        )
        # Pulumi knows only the Helm release, which is unchanged.
        yield _finding(where, difference, manifests.patch_command(name, wrong))


def _upgraded(operator: GpuOperator) -> str:
    """Returns Helm's own command.

    Pulumi compares a release with its own record, so `pulumi up` does not restore it.
    """
    chart, repository = manifests.chart_of(operator)
    words = ["helm", "-n", operator.namespace, "upgrade", operator.release, chart]
    if repository is not None:
        words += ["--repo", repository]
    return shlex.join([*words, "--version", operator.chart_version, "--reuse-values"])


def _made_again(fleet: FleetPlan) -> str:
    """Returns a command that recreates it. Pulumi knows only the release, unchanged for Helm."""
    operator = fleet.operator
    assert operator is not None
    if is_adopted(fleet):
        return ""
    manifest = f"helm -n {operator.namespace} get manifest {operator.release}"
    return f"{manifest} | kubectl apply --server-side -f -"


def _plain(version: str) -> str:
    """Helm treats `v26.7.0` and `26.7.0` as equal."""
    return version.removeprefix("v")


def _value_text(value: Any) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _finding(where: str, difference: str, heal: str) -> Finding:
    return Finding(comparison=Comparison.OPERATOR, where=where, difference=difference, heal=heal)
