"""The pod that proves a node, as it is created and read back."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.apis.names import NAMESPACE, PROOF_POD_PREFIX, PROOF_POD_SELECTOR
from slicewright.fleet_controller.cluster.proof_pod_body import proof_pod_body
from slicewright.fleet_controller.nodes.pod_proof import CreateProofPod
from slicewright.fleet_controller.objects.proof_pod import read_proof_pod, read_settings
from tests.fleet_controller.nodes.test_pod_proof import SETTINGS

SPEC: dict[str, Any] = {
    "image": "python",
    "imagePullSecrets": [],
    "codeConfigMap": "node-agent-1",
    "codeDirectory": "/opt/slicewright",
    "command": ["python", "prove"],
    "devices": [{"resource": "nvidia.com/mig-3g.40gb", "device": "3g.40gb"}],
    "environment": {},
    "tolerations": [],
}


def _body() -> dict[str, Any]:
    return proof_pod_body(
        CreateProofPod(
            node="n1",
            pod=f"{PROOF_POD_PREFIX}1",
            key="k",
            pool="p",
            pool_uid="u",
            settings=SETTINGS,
        )
    )


def test_the_settings_are_those_of_the_spec() -> None:
    assert read_settings(SPEC) == SETTINGS
    assert read_settings(None) is None


def test_it_goes_through_the_scheduler_to_its_node_and_asks_for_one_device() -> None:
    spec = _body()["spec"]
    assert "nodeName" not in spec
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    (container,) = spec["containers"]
    assert container["resources"]["limits"]["nvidia.com/mig-3g.40gb"] == "1"
    assert container["command"][2:4] == ["--allotted", "3g.40gb"]


def test_it_has_no_privilege_and_no_token() -> None:
    spec = _body()["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert [set(volume) - {"name"} for volume in spec["volumes"]] == [{"configMap"}]
    (container,) = spec["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_it_ends_and_is_found_again() -> None:
    body = _body()
    assert body["spec"]["restartPolicy"] == "Never"
    assert body["spec"]["activeDeadlineSeconds"] == 300
    key, _, value = PROOF_POD_SELECTOR.partition("=")
    assert body["metadata"]["labels"][key] == value
    assert body["metadata"]["namespace"] == NAMESPACE
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("GPUPool", "p", "u")


@pytest.mark.parametrize(
    ("status", "progress", "why", "codes"),
    [
        ({}, "unscheduled", "", ()),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}]},
            "unscheduled",
            "no node",
            (),
        ),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
            "started",
            "",
            (),
        ),
        (
            {
                "phase": "Succeeded",
                "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}],
            },
            "succeeded",
            "",
            (0,),
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 0}}},
                    {"state": {"terminated": {"exitCode": 4, "message": "wrong device: x"}}},
                ],
            },
            "failed",
            "wrong device: x",
            (0, 4),
        ),
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device"},
            "failed",
            "UnexpectedAdmissionError: no device",
            (),
        ),
    ],
)
def test_its_progress_is_read_from_its_status(
    status: dict[str, Any], progress: str, why: str, codes: tuple[int, ...]
) -> None:
    pod = read_proof_pod({**_body(), "status": status})
    assert (pod.node, pod.key) == ("n1", "k")
    assert (pod.progress, pod.why, pod.exit_codes) == (progress, why, codes)
