"""The simulated Google IAM."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError


def test_a_policy_with_an_old_etag_is_refused(gcp) -> None:
    gcp.call(
        "iam", "projects.serviceAccounts.create", {"name": "projects/acme"}, accountId="nodes-1"
    )
    old = gcp.call("cloudresourcemanager", "projects.getIamPolicy", {"resource": "acme"})
    binding = {
        "role": "roles/viewer",
        "members": ["serviceAccount:nodes-1@acme.iam.gserviceaccount.com"],
    }
    policy = {"etag": old["etag"], "bindings": [binding]}
    gcp.call("cloudresourcemanager", "projects.setIamPolicy", {"resource": "acme"}, policy=policy)
    with pytest.raises(CloudError) as caught:
        gcp.call(
            "cloudresourcemanager", "projects.setIamPolicy", {"resource": "acme"}, policy=policy
        )
    assert caught.value.reason == "ABORTED"


def test_a_member_that_does_not_exist_is_refused(gcp) -> None:
    binding = {
        "role": "roles/viewer",
        "members": ["serviceAccount:ghost@acme.iam.gserviceaccount.com"],
    }
    with pytest.raises(CloudError, match="does not exist"):
        gcp.call(
            "cloudresourcemanager",
            "projects.setIamPolicy",
            {"resource": "acme"},
            policy={"bindings": [binding]},
        )
