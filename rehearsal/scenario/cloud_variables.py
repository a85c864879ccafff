"""Variables by which clients of the real clouds find an environment's simulated ones.

Sources: "AWS SDKs and Tools Reference Guide", service-specific endpoints and credential settings;
terraform-provider-google, "Google Provider Configuration Reference"; gcloud's properties (`gcloud
topic configurations`), each also a variable CLOUDSDK_SECTION_NAME.
"""

from __future__ import annotations

import os
from pathlib import Path

from slicewright.rehearsal.clouds.core.access import (
    ADDRESS,
    CREDENTIAL_FILE,
    FILE_OF_GCLOUD,
    Access,
)
from slicewright.rehearsal.clouds.gcp.rest.endpoints import gcloud_variables, terraform_variables

_AWS_SERVICES = (
    "EC2",
    "EKS",
    "IAM",
    "STS",
    "ELASTIC_LOAD_BALANCING",
    "ELASTIC_LOAD_BALANCING_V2",
    "SERVICE_QUOTAS",
    "SSM",
    "KMS",
    "RESOURCE_GROUPS",
    "CLOUDWATCH_LOGS",
)
USERS_OWN = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CA_BUNDLE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    *(f"AWS_ENDPOINT_URL_{service}" for service in _AWS_SERVICES),
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CREDENTIALS",
    "GOOGLE_CLOUD_KEYFILE_JSON",
    "GCLOUD_KEYFILE_JSON",
    "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
    "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE",
    "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT",
)
"""To be unset, or set anew: they would lead a client past the rehearsal, to an account of the
user's.
"""
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def of(access: Access, environment: Path) -> dict[str, str]:
    return {
        **terraform_variables(access.url),
        "GOOGLE_OAUTH_ACCESS_TOKEN": access.credentials.google_access_token,
        # Of `slicewright doctor`: no provider knows it.
        "GOOGLE_OAUTH2_CUSTOM_ENDPOINT": f"{access.url}/oauth2.googleapis.com/",
        "GOOGLE_APPLICATION_CREDENTIALS": str(environment / CREDENTIAL_FILE),
        **gcloud_variables(access.url),
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(environment / FILE_OF_GCLOUD),
        "AWS_ENDPOINT_URL": access.url,
        "AWS_ACCESS_KEY_ID": access.credentials.aws_access_key_id,
        "AWS_SECRET_ACCESS_KEY": access.credentials.aws_secret_access_key,
        # The user's own files name accounts, endpoints and roles.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        **_past_the_proxy(),
    }


def _past_the_proxy() -> dict[str, str]:
    """Python's clients send even calls to loopback through a proxy, where one is set."""
    if not any(os.environ.get(name) for name in _PROXIES):
        return {}
    known = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    hosts = [host for host in known.split(",") if host]
    direct = ",".join(hosts if ADDRESS in hosts else [*hosts, ADDRESS])
    return {"no_proxy": direct, "NO_PROXY": direct}
