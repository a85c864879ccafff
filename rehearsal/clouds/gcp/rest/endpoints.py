"""Which URLs are which service's, and the variables that lead official clients to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slicewright.rehearsal.clouds.gcp.models import DOCUMENTS

# A version in a path, as in v1, v1beta1, beta.
_VERSION = re.compile(r"v\d+((alpha|beta|p\d+beta)\d*)?|alpha|beta")

# hashicorp/terraform-provider-google names its variables after the product.
TERRAFORM_VARIABLES: Mapping[str, str] = {
    "container": "GOOGLE_CONTAINER_CUSTOM_ENDPOINT",
    "compute": "GOOGLE_COMPUTE_CUSTOM_ENDPOINT",
    "iam": "GOOGLE_IAM_CUSTOM_ENDPOINT",
    "cloudresourcemanager": "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT",
    "serviceusage": "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT",
    "cloudkms": "GOOGLE_KMS_CUSTOM_ENDPOINT",
    "orgpolicy": "GOOGLE_ORG_POLICY_CUSTOM_ENDPOINT",
}
_SERVICE_PATHS = {"compute": "compute/v1/"}


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a URL leads to."""

    service: str
    version: str
    """As asked for: v1, v1beta1, beta, v3."""
    path: str
    """As in the discovery document's path templates: relative to the service's base."""


def host(service: str) -> str:
    """The host of the real API, which is the first segment of the simulated one's paths."""
    return f"{service}.googleapis.com"


def version(service: str) -> str:
    """The version that is simulated."""
    return DOCUMENTS[service].rpartition(".")[2]


def service_path(service: str) -> str:
    """What of the URL is in no path template: `servicePath` of the discovery document.

    Known without the documents, of which Compute's takes 0.1 s to read.
    """
    return _SERVICE_PATHS.get(service, "")


def client_endpoint(service: str, address: str) -> str:
    """`api_endpoint` of google-api-python-client, and of gcloud's api_endpoint_overrides.

    address: of the simulated clouds, as http://127.0.0.1:PORT.
    """
    return f"{address}/{host(service)}/{service_path(service)}"


def terraform_endpoint(service: str, address: str) -> str:
    """The endpoint with its version, as terraform-provider-google requires it."""
    base = client_endpoint(service, address)
    return base if service_path(service) else f"{base}{version(service)}/"


def terraform_variables(address: str) -> dict[str, str]:
    """What the official provider (pulumi-gcp is built on it) reads its endpoints from."""
    variables = {
        name: terraform_endpoint(service, address) for service, name in TERRAFORM_VARIABLES.items()
    }
    # Not simulated, but pointed here all the same: no call of a rehearsal reaches Google.
    manager = client_endpoint("cloudresourcemanager", address)
    return {**variables, "GOOGLE_RESOURCE_MANAGER_V3_CUSTOM_ENDPOINT": f"{manager}v3/"}


def gcloud_variables(address: str) -> dict[str, str]:
    """gcloud's properties `api_endpoint_overrides/SERVICE`, as variables."""
    return {
        f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service.upper()}": client_endpoint(service, address)
        for service in DOCUMENTS
    }


def is_google(path: str) -> bool:
    """Whether the path is that of a Google API, simulated or not."""
    return path.lstrip("/").partition("/")[0].endswith(".googleapis.com")


def find(path: str) -> Target | None:
    """path: percent-encoded. None for a service that is not simulated, or no service's path.

    terraform-provider-google removes the version of a custom endpoint only if its scheme is https
    (RemoveBasePathVersion: `http[s]://`) and then appends another one, so that two versions may
    follow each other; the last one counts.
    """
    first, _, rest = path.lstrip("/").partition("/")
    service = _services().get(first)
    if service is None:
        return None
    product, _, after = rest.partition("/")
    in_path = service_path(service).partition("/")[0]
    if in_path:
        if product != in_path:
            return None
        rest = after
    requested, rest = _split_version(rest)
    if requested is None:
        return None
    # Templates begin with the version unless it is a part of the service's base path.
    relative = rest if in_path else f"{version(service)}/{rest}"
    return Target(service=service, version=requested, path=relative)


def _services() -> Mapping[str, str]:
    return {host(name): name for name in DOCUMENTS}


def _split_version(path: str) -> tuple[str | None, str]:
    requested: str | None = None
    while True:
        first, slash, rest = path.partition("/")
        if not slash or not _VERSION.fullmatch(first):
            return requested, path
        requested, path = first, rest
