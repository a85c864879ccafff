"""Which APIs are on in a project, and how calls of the others are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from slicewright.rehearsal.clouds.gcp.projects import project_number
from slicewright.rehearsal.clouds.gcp.service_usage import INITIAL
from slicewright.rehearsal.clouds.service import Cloud
from tests.rehearsal.clouds.conftest import Gcp
from tests.rehearsal.clouds.gcp.google_client import HttpError, client

API = "projects/acme/services/compute.googleapis.com"
NETWORK = {"project": "acme", "body": {"name": "net"}}


def state(gcp: Gcp, name: str = API) -> str:
    return str(gcp.call("serviceusage", "services.get", {"name": name})["state"])


def test_all_apis_are_on_unless_the_environment_says_otherwise(gcp: Gcp) -> None:
    listed = gcp.call("serviceusage", "services.list", {"parent": "projects/acme"})["services"]
    assert {s["state"] for s in listed} == {"ENABLED"}
    names = {s["config"]["name"] for s in listed}
    assert {"compute.googleapis.com", "container.googleapis.com"} <= names


def test_a_project_begins_with_the_apis_that_the_environment_names(
    gcp: Gcp, environment: Path
) -> None:
    (environment / "cloud" / INITIAL).write_text(json.dumps(["serviceusage.googleapis.com"]))
    compute = client(gcp.cloud.call, "compute")
    with pytest.raises(HttpError) as caught:
        compute.call("networks.insert", **NETWORK)
    number = project_number("acme")
    assert caught.value.status_code == 403
    assert caught.value.reason.startswith(
        f"Compute Engine API has not been used in project {number} before or it is disabled. "
        "Enable it by visiting https://console.developers.google.com/apis/api/"
        f"compute.googleapis.com/overview?project={number} then retry."
    )
    info = caught.value.error_details[0]
    assert info["reason"] == "SERVICE_DISABLED"
    assert info["metadata"]["consumer"] == f"projects/{number}"
    error = json.loads(caught.value.content)["error"]
    assert error["status"] == "PERMISSION_DENIED"
    assert error["errors"][0]["reason"] == "accessNotConfigured"
    gcp.call("serviceusage", "services.enable", {"name": API})
    assert compute.call("networks.insert", **NETWORK)["status"] == "DONE"


def test_an_api_is_on_in_one_project_only(gcp: Gcp, environment: Path) -> None:
    (environment / "cloud" / INITIAL).write_text(json.dumps(["serviceusage.googleapis.com"]))
    gcp.call("serviceusage", "services.enable", {"name": API})
    assert state(gcp) == "ENABLED"
    assert state(gcp, API.replace("acme", "other")) == "DISABLED"


def test_state_of_an_api_survives_a_restart(gcp: Gcp, environment: Path) -> None:
    gcp.call("serviceusage", "services.disable", {"name": API})
    again = Cloud(environment, FakeControlPlanes(environment))
    assert again.call("serviceusage", "services.get", {"name": API}, {})["state"] == "DISABLED"


def test_the_list_comes_in_pages(gcp: Gcp) -> None:
    found, token, pages = [], "", 0
    while True:
        asked = {"parent": "projects/acme", "pageSize": 4, "pageToken": token}
        answer = gcp.call("serviceusage", "services.list", asked)
        found += [s["config"]["name"] for s in answer["services"]]
        pages += 1
        token = answer.get("nextPageToken", "")
        if not token:
            break
    assert pages == 4
    assert found == sorted(set(found))


def test_a_file_that_is_no_list_of_apis_changes_nothing(gcp: Gcp, environment: Path) -> None:
    for text in ("{", '["none.googleapis.com"]', "{}"):
        (environment / "cloud" / INITIAL).write_text(text)
        assert state(gcp) == "ENABLED"


def test_disabling_what_is_off_is_refused(gcp: Gcp) -> None:
    gcp.call("serviceusage", "services.disable", {"name": API})
    with pytest.raises(CloudError) as caught:
        gcp.call("serviceusage", "services.disable", {"name": API})
    assert caught.value.reason == "FAILED_PRECONDITION"
