"""The simulated Google Cloud over HTTP: URLs, credentials, bodies, refusals and partial answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.http_messages import Response
from slicewright.rehearsal.clouds.gcp import models
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.rest.endpoints import (
    client_endpoint,
    find,
    host,
    service_path,
    terraform_variables,
    version,
)
from slicewright.rehearsal.clouds.gcp.rest.paths import match
from slicewright.rehearsal.clouds.gcp.rest.protocol import GoogleRest
from tests.rehearsal.clouds.conftest import Gcp
from tests.rehearsal.clouds.gcp.google_client import TOKEN, HttpError, client, send

NETWORKS = "/compute.googleapis.com/compute/v1/projects/acme/global/networks"
CLUSTERS = "/container.googleapis.com/v1/projects/acme/locations/us-central1/clusters"
AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def rest(gcp: Gcp) -> GoogleRest:
    return GoogleRest(gcp.cloud.call, token=TOKEN)


def ask(rest: GoogleRest, url: str, method: str = "GET", body: Any = None) -> Response:
    text = None if body is None else json.dumps(body)
    return send(rest, method, url, text, AUTHORIZED)


def parsed(response: Response) -> JsonObject:
    assert response.headers["Content-Type"] == "application/json; charset=UTF-8"
    found: JsonObject = json.loads(response.body)
    return found


def refused(error: CloudError, url: str, *, method: str = "GET") -> JsonObject:
    def call(*_: Any) -> JsonObject:
        raise error

    response = ask(GoogleRest(call, token=TOKEN), url, method)
    assert response.status == error.code
    body: JsonObject = parsed(response)["error"]
    return body


@pytest.mark.parametrize(
    ("path", "service", "version", "relative"),
    [
        (NETWORKS, "compute", "v1", "projects/acme/global/networks"),
        ("/compute.googleapis.com/compute/beta/projects/a", "compute", "beta", "projects/a"),
        ("/container.googleapis.com/v1/projects/a", "container", "v1", "v1/projects/a"),
        # What terraform-provider-google-beta makes of its own container endpoint over http.
        (
            "/container.googleapis.com/v1/v1beta1/projects/a",
            "container",
            "v1beta1",
            "v1/projects/a",
        ),
    ],
)
def test_a_url_names_service_version_and_path(
    path: str, service: str, version: str, relative: str
) -> None:
    found = find(path)
    assert found is not None
    assert (found.service, found.version, found.path) == (service, version, relative)


@pytest.mark.parametrize("service", sorted(models.DOCUMENTS))
def test_hosts_and_paths_are_those_of_the_discovery_documents(service: str) -> None:
    document = models.document(service)
    assert document["rootUrl"] == f"https://{host(service)}/"
    assert document["servicePath"] == service_path(service)
    assert document["version"] == version(service)


def test_official_clients_are_led_to_the_paths_of_the_real_hosts() -> None:
    address = "http://127.0.0.1:8000"
    assert client_endpoint("container", address) == f"{address}/container.googleapis.com/"
    assert terraform_variables(address) == {
        "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": f"{address}/compute.googleapis.com/compute/v1/",
        "GOOGLE_CONTAINER_CUSTOM_ENDPOINT": f"{address}/container.googleapis.com/v1/",
        "GOOGLE_IAM_CUSTOM_ENDPOINT": f"{address}/iam.googleapis.com/v1/",
        "GOOGLE_KMS_CUSTOM_ENDPOINT": f"{address}/cloudkms.googleapis.com/v1/",
        "GOOGLE_ORG_POLICY_CUSTOM_ENDPOINT": f"{address}/orgpolicy.googleapis.com/v2/",
        "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT": (
            f"{address}/cloudresourcemanager.googleapis.com/v1/"
        ),
        "GOOGLE_RESOURCE_MANAGER_V3_CUSTOM_ENDPOINT": (
            f"{address}/cloudresourcemanager.googleapis.com/v3/"
        ),
        "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT": f"{address}/serviceusage.googleapis.com/v1/",
    }


@pytest.mark.parametrize(
    "path",
    [
        "/compute.googleapis.com/compute/v1/projects/acme/global/nonsense",
        "/container.googleapis.com/projects/acme",
        "/compute.googleapis.com/v1/projects/acme/global/networks",
        "/pubsub.googleapis.com/v1/projects/acme/topics",
    ],
)
def test_a_path_that_no_simulated_api_has_is_answered_with_a_page(
    rest: GoogleRest, path: str
) -> None:
    response = ask(rest, path)
    assert response.status == 404
    assert response.headers["Content-Type"].startswith("text/html")
    assert path.encode() in response.body


def test_a_path_of_aws_is_not_googles(rest: GoogleRest) -> None:
    with pytest.raises(AssertionError):
        send(rest, "POST", "/clusters")


def test_a_known_method_that_is_not_simulated_says_so(rest: GoogleRest) -> None:
    response = ask(rest, "/compute.googleapis.com/compute/v1/projects/acme/zones/z/instances")
    error = parsed(response)["error"]
    assert response.status == 501
    assert "does not simulate compute instances.list" in error["message"]
    assert error["errors"][0]["reason"] == "notImplemented"


def test_another_version_of_a_simulated_api_is_not_simulated(rest: GoogleRest) -> None:
    response = ask(rest, "/cloudresourcemanager.googleapis.com/v3/projects/acme")
    assert response.status == 501
    assert "cloudresourcemanager v3; it has v1" in parsed(response)["error"]["message"]


def test_the_beta_paths_of_pulumi_gcp_lead_to_the_same_cluster(gcp: Gcp) -> None:
    gcp.make_cluster()
    rest = GoogleRest(gcp.cloud.call, token=TOKEN)
    beta = CLUSTERS.replace("/v1/", "/v1beta1/")
    assert parsed(ask(rest, f"{beta}/main")) == parsed(ask(rest, f"{CLUSTERS}/main"))


@pytest.mark.parametrize(
    ("headers", "words", "reason", "detail"),
    [
        ({}, "missing required authentication", "required", "CREDENTIALS_MISSING"),
        (
            {"authorization": "Bearer of.another"},
            "invalid authentication credentials",
            "authError",
            "ACCESS_TOKEN_TYPE_UNSUPPORTED",
        ),
        ({"authorization": "Basic eDp5"}, "missing required", "required", "CREDENTIALS_MISSING"),
    ],
)
def test_a_request_without_the_token_is_refused(
    rest: GoogleRest, headers: dict[str, str], words: str, reason: str, detail: str
) -> None:
    response = send(rest, "GET", CLUSTERS, None, headers)
    error = parsed(response)["error"]
    assert (response.status, error["status"]) == (401, "UNAUTHENTICATED")
    assert words in error["message"]
    assert error["errors"][0]["reason"] == reason
    assert error["details"][0]["reason"] == detail
    assert "Bearer" in response.headers["WWW-Authenticate"]


def test_the_token_is_taken_from_the_query_as_well(rest: GoogleRest) -> None:
    assert send(rest, "GET", f"{CLUSTERS}?access_token={TOKEN}").status == 200


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"{CLUSTERS}?unknown=1", "Unknown name"),
        (f"{CLUSTERS}?alt=media", "answers in json"),
        (f"{CLUSTERS}?uploadType=media", "uploadType is not supported"),
        (f"{CLUSTERS}?callback=f", "callback is not supported"),
        (f"{CLUSTERS}?zone=a&zone=b", "not repeating"),
        (f"{CLUSTERS}?parent=projects%2Fx", "belongs into the path"),
        (f"{CLUSTERS}?fields=clusters(name", "Invalid field selection"),
        (f"{CLUSTERS}?fields=nothing", "Invalid field selection nothing"),
        (
            "/serviceusage.googleapis.com/v1/projects/a/services?pageSize=many",
            "Invalid value at 'page_size' (TYPE_INT32), \"many\"",
        ),
    ],
)
def test_a_query_that_the_api_lacks_is_refused(rest: GoogleRest, url: str, words: str) -> None:
    response = ask(rest, url)
    assert response.status == 400
    assert words in parsed(response)["error"]["message"]


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("{", "application/json", "Invalid JSON payload received"),
        ("[]", "application/json", "Root element must be a message"),
        ("a=b", "application/x-www-form-urlencoded", "must be application/json"),
        ('{"cluster": {"nam": "x"}}', "application/json", 'Unknown name "nam"'),
    ],
)
def test_a_body_that_is_no_message_is_refused(
    rest: GoogleRest, body: str, kind: str, words: str
) -> None:
    response = send(rest, "POST", CLUSTERS, body, {**AUTHORIZED, "content-type": kind})
    assert response.status == 400
    assert words in parsed(response)["error"]["message"]


def test_a_name_of_several_segments_arrives_decoded() -> None:
    seen: list[JsonObject] = []

    def call(service: str, method: str, params: JsonObject, body: JsonObject) -> JsonObject:
        seen.append({"method": f"{service} {method}", **params})
        return {}

    rest = GoogleRest(call, token=TOKEN)
    ask(rest, "/iam.googleapis.com/v1/projects/acme/serviceAccounts/a%40b.com")
    ask(rest, "/serviceusage.googleapis.com/v1/projects/a/services/x:enable", "POST", {})
    ask(rest, "/cloudresourcemanager.googleapis.com/v1/projects/acme:getIamPolicy", "POST", {})
    assert seen == [
        {
            "method": "iam projects.serviceAccounts.get",
            "name": "projects/acme/serviceAccounts/a@b.com",
        },
        {"method": "serviceusage services.enable", "name": "projects/a/services/x"},
        {"method": "cloudresourcemanager projects.getIamPolicy", "resource": "acme"},
    ]


def test_a_custom_verb_is_no_part_of_the_last_segment() -> None:
    path = "v1/projects/p/zones/z/clusters/c"
    found = match("container", "GET", f"{path}:fetchClusterUpgradeInfo")
    assert found is not None
    method, parameters = found
    assert method == "projects.zones.clusters.fetchClusterUpgradeInfo"
    assert parameters == {"name": path.removeprefix("v1/")}


def test_a_get_with_a_long_query_comes_as_a_post(gcp: Gcp) -> None:
    many = ["projects/acme/services/iam.googleapis.com"] * 60
    usage = client(gcp.cloud.call, "serviceusage")
    answer = usage.call("services.batchGet", parent="projects/acme", names=many)
    assert len(answer["services"]) == 60


def test_an_answer_that_the_api_lacks_is_an_internal_error() -> None:
    rest = GoogleRest(lambda *_: {"clusters": [{"nam": "x", "id": 4}]}, token=TOKEN)
    response = ask(rest, CLUSTERS)
    message = parsed(response)["error"]["message"]
    assert response.status == 500
    assert "the API has no field nam" in message
    assert "clusters[0].id: 4 is not a string" in message


def test_a_64_bit_integer_must_be_text() -> None:
    rest = GoogleRest(lambda *_: {"id": 4, "name": "n"}, token=TOKEN)
    response = ask(rest, f"{NETWORKS}/n")
    assert response.status == 500
    assert "Network.id: 4 is not a uint64 in a string" in parsed(response)["error"]["message"]


def test_compute_names_a_reason_and_no_status() -> None:
    message = "The resource 'projects/acme/global/networks/n' was not found"
    assert refused(google_error(404, message), f"{NETWORKS}/n") == {
        "code": 404,
        "message": message,
        "errors": [{"message": message, "domain": "global", "reason": "notFound"}],
    }


@pytest.mark.parametrize(
    ("code", "status", "reason", "domain"),
    [
        (400, None, "invalid", "global"),
        (409, None, "alreadyExists", "global"),
        (
            400,
            "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
            "resourceInUseByAnotherResource",
            "global",
        ),
        (403, "QUOTA_EXCEEDED", "quotaExceeded", "usageLimits"),
        (403, None, "forbidden", "global"),
        (429, None, "rateLimitExceeded", "usageLimits"),
        (503, None, "backendError", "global"),
    ],
)
def test_computes_reasons(code: int, status: str | None, reason: str, domain: str) -> None:
    error = refused(google_error(code, "no", status=status), f"{NETWORKS}/n")
    assert error["errors"] == [{"message": "no", "domain": domain, "reason": reason}]


def test_container_names_a_status_and_a_reason() -> None:
    error = refused(google_error(400, "busy", status="FAILED_PRECONDITION"), CLUSTERS)
    assert error == {
        "code": 400,
        "message": "busy",
        "errors": [{"message": "busy", "domain": "global", "reason": "failedPrecondition"}],
        "status": "FAILED_PRECONDITION",
    }


def test_the_second_error_format_has_a_status_and_no_list() -> None:
    error = refused(google_error(404, "gone"), f"{NETWORKS}/n?$.xgafv=2")
    assert error == {"code": 404, "message": "gone", "status": "NOT_FOUND"}


def test_part_of_an_answer(gcp: Gcp) -> None:
    gcp.make_cluster()
    rest = GoogleRest(gcp.cloud.call, token=TOKEN)
    mask = "clusters(name,nodePools/config/machineType,autopilot)"
    assert parsed(ask(rest, f"{CLUSTERS}?fields={mask}")) == {
        "clusters": [{"name": "main", "nodePools": [{"config": {"machineType": "e2-medium"}}]}]
    }


def test_answers_are_indented_unless_asked_otherwise(rest: GoogleRest) -> None:
    assert b'\n  "clusters"' in ask(rest, CLUSTERS).body
    assert ask(rest, f"{CLUSTERS}?prettyPrint=false").body.count(b"\n") == 1


def test_a_client_without_a_token_gets_googles_refusal(gcp: Gcp) -> None:
    container = client(gcp.cloud.call, "container", token=None)
    with pytest.raises(HttpError) as caught:
        container.call("projects.locations.clusters.list", parent="projects/a/locations/b")
    assert caught.value.status_code == 401
    assert caught.value.error_details[0]["reason"] == "CREDENTIALS_MISSING"
