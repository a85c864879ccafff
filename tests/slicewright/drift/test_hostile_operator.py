"""Objects of the GPU operator that are not as they must be: each is named, and hides no other."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.drift.gpu_operator import operator_drift
from slicewright.drift.reading import read_operator
from slicewright.infra import manifests, plan
from slicewright.infra.plan import FleetPlan
from slicewright.kubeapi import ApiError, Client
from slicewright.rehearsal.plugins.charts.gpu_operator.manifests import cluster_policy_spec
from slicewright.rehearsal.plugins.charts.gpu_operator.values import merged
from tests.odd_values import ABSENT, VALUES, places, replaced
from tests.properties import examples

STACKS = Path(__file__).resolve().parents[3] / "stacks"


@pytest.fixture(scope="module")
def fleet() -> FleetPlan:
    return plan.read_file(STACKS / "Pulumi.eks-a100.yaml")


def _release(text: bytes) -> dict[str, Any]:
    packed = base64.b64encode(base64.b64encode(gzip.compress(text))).decode()
    return {"metadata": {"name": "sh.helm.release.v1.gpu-operator.v1"}, "data": {"release": packed}}


class Server:
    """The operator as the chart makes it from the stack's values."""

    def __init__(self, fleet: FleetPlan) -> None:
        files = manifests.operator_files(fleet)
        assert fleet.operator is not None
        spec = cluster_policy_spec(merged(manifests.operator_values(fleet, files)))
        record = {"version": 1, "chart": {"metadata": {"version": fleet.operator.chart_version}}}
        self.objects: dict[str, Any] = {
            "cluster-policy": {"metadata": {"name": "cluster-policy"}, "spec": spec},
            **{file.name: {"data": dict(file.data)} for file in files},
            "secrets": {"items": [_release(json.dumps(record).encode())]},
        }

    def get(self, path: str, **query: str) -> Any:
        name = path.rpartition("/")[2]
        if name not in self.objects:
            raise ApiError(404, {})
        return self.objects[name]


def _looked(server: Server, fleet: FleetPlan) -> tuple[list[str], list[str]]:
    """What has drifted, and what could not be read."""
    installed = read_operator(cast("Client", server), fleet)
    found = operator_drift(installed, fleet, "eks-a100")
    return [one.where for one in found], [str(one) for one in installed.unread]


def test_as_it_must_be_nothing_is_unread(fleet: FleetPlan) -> None:
    assert _looked(Server(fleet), fleet) == ([], [])


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_no_odd_object_ends_the_comparison(data: st.DataObject) -> None:
    fleet = plan.read_file(STACKS / "Pulumi.eks-a100.yaml")
    server = Server(fleet)
    name = data.draw(st.sampled_from(sorted(set(server.objects) - {"secrets"})))
    known = server.objects[name]
    way = data.draw(st.sampled_from([way for way in places(known) if way][:300]))
    absent = data.draw(st.booleans())
    server.objects[name] = replaced(
        known, way, ABSENT if absent else data.draw(st.sampled_from(VALUES))
    )
    _looked(server, fleet)


def test_an_odd_config_map_is_named_and_the_policy_is_compared(fleet: FleetPlan) -> None:
    server = Server(fleet)
    name = next(iter(manifests.operator_files(fleet))).name
    server.objects[name]["data"] = {"x": 7}
    server.objects["cluster-policy"]["spec"]["mig"] = {"strategy": "single"}
    drifted, unread = _looked(server, fleet)
    assert drifted == ["ClusterPolicy cluster-policy"]
    assert unread == [f"ConfigMap {name} cannot be read: data['x'] must be text, is 7"]


@pytest.mark.parametrize(
    "spec", [7, [], {"daemonsets": {"tolerations": [None]}}, {"migManager": 1}]
)
def test_a_malformed_policy_is_named_and_is_no_difference(fleet: FleetPlan, spec: Any) -> None:
    server = Server(fleet)
    server.objects["cluster-policy"]["spec"] = spec
    drifted, (unread,) = _looked(server, fleet)
    assert drifted == []
    assert unread.startswith("ClusterPolicy cluster-policy cannot be read: spec")


@pytest.mark.parametrize(
    "text",
    [b"[" * 100_000, b"7", b"{}", b"\xff", b'{"version":"x","chart":{}}', b" " * (65 * 2**20)],
    ids=["nested", "number", "empty", "bytes", "fields", "large"],
)
def test_a_malformed_helm_record_is_named_and_no_release_is_missing(
    fleet: FleetPlan, text: bytes
) -> None:
    server = Server(fleet)
    server.objects["secrets"] = {"items": [_release(text)]}
    drifted, (unread,) = _looked(server, fleet)
    assert drifted == []
    assert unread.startswith("Secret sh.helm.release.v1.gpu-operator.v1 cannot be read: it")
