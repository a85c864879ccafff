"""The access entry that EKS makes for whoever creates a cluster.

Source: EKS API reference, CreateAccessConfigRequest.
"""

from __future__ import annotations

import uuid

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import ACCESS_ENTRIES
from slicewright.rehearsal.clouds.core.context import Context, now

_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def has_no_access_entries(cluster: JsonObject) -> bool:
    """Whether the cluster's authentication mode has no access entries."""
    return bool(cluster["accessConfig"]["authenticationMode"] == "CONFIG_MAP")


def add_creator(context: Context, region: str, cluster: JsonObject) -> None:
    """Nothing in a mode without access entries: it follows when the mode changes."""
    if has_no_access_entries(cluster):
        return
    creator = account_of(context).caller.principal
    entry = new_entry(region, cluster["name"], creator)
    association = {
        "policyArn": _ADMIN,
        "accessScope": {"type": "cluster", "namespaces": []},
        "associatedAt": entry["createdAt"],
        "modifiedAt": entry["createdAt"],
    }
    key = f"{region}/{cluster['name']}/{creator}"
    context.store.put(ACCESS_ENTRIES, key, entry | {"_policies": [association], "_creator": True})


def new_entry(region: str, cluster: str, principal: str) -> JsonObject:
    """With what EKS fills in."""
    account = principal.split(":")[4]
    kind, _, name = principal.partition(f":{account}:")[2].partition("/")
    called = name.rpartition("/")[2]
    session = f"arn:aws:sts::{account}:assumed-role/{called}/{{{{SessionName}}}}"
    return {
        "clusterName": cluster,
        "principalArn": principal,
        "kubernetesGroups": [],
        "accessEntryArn": f"arn:aws:eks:{region}:{ACCOUNT}:access-entry/{cluster}/{kind}/{account}/"
        f"{called}/{uuid.uuid4()}",
        "createdAt": now(),
        "modifiedAt": now(),
        "tags": {},
        "username": session if kind == "role" else principal,
        "type": "STANDARD",
        "_policies": [],
    }


def public_fields(entry: JsonObject) -> JsonObject:
    """In the API's form."""
    return {k: v for k, v in entry.items() if not k.startswith("_")}
