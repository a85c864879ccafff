"""The alerts: for nodes that are not in the desired state, and for problems that hide such nodes.

alerts.toml has them as data. This module fills in the parameters of their expressions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Final

from slicewright.infra.manifests.monitoring.recording import GPU_RESOURCES
from slicewright.infra.manifests.monitoring.rules import Alert, Group, Source
from slicewright.infra.plan import DeploymentPlan

_WORKLOAD_ALERTS: Final = "slicewright-workload-alerts"
_SHARE_ALERTS: Final = "slicewright-share-alerts"
_COMPUTED: Final = frozenset({"group", "expr", "settled", "needs"})
"""Keys of a row that are not fields of the alert as they stand."""
_AGENT_INTERVAL_S: Final = 10
"""The time between two reads by an agent: `slicewright-agent watch --interval`."""
_UNSETTLED: Final = " or ".join(
    (
        'kube_node_status_condition{condition="Ready",status="true"} == 0',
        'kube_node_labels{label_nvidia_com_mig_config_state=~"pending|rebooting"}',
        "kube_node_labels{label_nvidia_com_gpu_driver_upgrade_state!~"
        '"|upgrade-done|upgrade-failed"}',
    )
)
"""Nodes that are not ready, or whose layout or driver is being changed. Source:
NVIDIA/gpu-operator docs, driver upgrades: states of the label.
"""


def alerts(
    deployments: Sequence[DeploymentPlan], *, jobs: Sequence[str], interval_s: int, shares: bool
) -> list[Group]:
    """jobs: values of the label `job` of the scrapes. interval_s: time between two scrapes.
    shares: True if an engine shares GPUs by fractions.
    """
    parameters = {
        "gpu_resources": GPU_RESOURCES,
        "jobs": "|".join(jobs),
        "success": "slicewright_last_success_timestamp_seconds",
        # Prometheus learns an age with its next scrape only.
        "stale_seconds": str(3 * _AGENT_INTERVAL_S + 3 * interval_s),
        "workloads": _matchers(deployments),
    }
    left_out = {
        *(() if deployments else (_WORKLOAD_ALERTS,)),
        *(() if shares else (_SHARE_ALERTS,)),
    }
    groups: dict[str, list[Alert]] = {}
    for row in _rows():
        if row["group"] not in left_out:
            groups.setdefault(row["group"], []).append(_alert(row, parameters))
    return [Group(name=name, rules=rules) for name, rules in groups.items()]


@cache
def _rows() -> Sequence[Mapping[str, Any]]:
    text = Path(__file__).with_name("alerts.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["alert"])


def _alert(row: Mapping[str, Any], parameters: Mapping[str, str]) -> Alert:
    """Raises TypeError for an unknown or a missing key."""
    unchanged = {key: value for key, value in row.items() if key not in _COMPUTED}
    expr = Template(row["expr"]).substitute(parameters)
    return Alert(
        expr=f"{expr} unless on (node) ({_UNSETTLED})" if row.get("settled") else expr,
        needs=frozenset(map(Source, row["needs"])),
        **unchanged,
    )


def _matchers(deployments: Sequence[DeploymentPlan]) -> str:
    """PromQL matchers of the Deployments in kube-state-metrics."""
    namespaces = "|".join(sorted({deployment.namespace for deployment in deployments}))
    names = "|".join(sorted({deployment.name for deployment in deployments}))
    return f'{{namespace=~"{namespaces}",deployment=~"{names}"}}'
