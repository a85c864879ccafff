"""google-api-python-client against the service's process, over loopback as in a rehearsal."""

from __future__ import annotations

from pathlib import Path

import httplib2
import pytest
from google.oauth2.credentials import Credentials
from google_auth_httplib2 import AuthorizedHttp
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from slicewright.rehearsal.clouds.core import access
from slicewright.rehearsal.clouds.gcp.rest.endpoints import client_endpoint
from tests.rehearsal.clouds.services import services


@pytest.mark.usefixtures("clouds_over_http")
def test_the_official_client_makes_a_network_with_the_environments_token(
    environment: Path,
) -> None:
    with services(environment) as start:
        start()
        found = access.load(environment)
        assert found is not None
        credentials = Credentials(token=found.credentials.google_access_token)
        options = {"api_endpoint": client_endpoint("compute", found.url)}
        http = AuthorizedHttp(credentials, httplib2.Http(timeout=30))
        networks = build("compute", "v1", http=http, client_options=options).networks()
        made = networks.insert(project="acme", body={"name": "net"}).execute(num_retries=0)
        assert made["status"] == "DONE"
        assert networks.get(project="acme", network="net").execute()["name"] == "net"
        with pytest.raises(HttpError) as caught:
            networks.get(project="acme", network="none").execute(num_retries=0)
        assert caught.value.status_code == 404
        assert caught.value.error_details[0]["reason"] == "notFound"
