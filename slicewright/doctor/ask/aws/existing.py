"""Asks EKS about an existing cluster. Every call only reads. It also connects to the endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicewright.doctor.ask.aws.session import AwsSession, code_of
from slicewright.doctor.ask.gpu_owners import ask_inside
from slicewright.doctor.checks.eks.existing import ExistingEksCluster
from slicewright.doctor.checks.gpu_owners import OwnerAnswers
from slicewright.doctor.checks.reach import may_ask, reach
from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.infra.manifests import eks_plugin, kubeconfig
from slicewright.infra.plan import NODE_MONITORING, EksClusterPlan

_NOT_THERE = "ResourceNotFoundException"


def described(session: AwsSession, name: str) -> Answer[Mapping[str, Any] | None]:
    """Returns EKS's description of the cluster, or None if there is no such cluster."""

    def read() -> Mapping[str, Any] | None:
        try:
            description: Mapping[str, Any] = session.client("eks").describe_cluster(name=name)[
                "cluster"
            ]
        except session.errors.ClientError as e:
            if code_of(e) != _NOT_THERE:
                raise
            return None
        return description

    return session.answer("eks:DescribeCluster", read)


def ask_existing(
    session: AwsSession, cluster: EksClusterPlan, description: Answer[Mapping[str, Any] | None]
) -> Answer[ExistingEksCluster | None]:
    """Returns None if the plan creates its cluster, or if the cluster does not exist.

    description: EKS's description of the cluster.
    """
    if not cluster.existing or description is None or isinstance(description, NotAnswered):
        return None
    network = description["resourcesVpcConfig"]
    # A cluster that is being created has no endpoint yet.
    endpoint = description.get("endpoint")
    reached = reach(endpoint) if endpoint else NotAnswered(why="it has no endpoint yet")
    return ExistingEksCluster(
        status=description["status"],
        version=description["version"],
        public=network["endpointPublicAccess"],
        public_cidrs=tuple(network.get("publicAccessCidrs", ())),
        reach=reached,
        monitored=session.answer("eks:DescribeAddon", lambda: _monitored(session, cluster.name)),
        groups=session.answer("eks:ListNodegroups", lambda: _groups(session, cluster.name)),
        mode=description.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP"),
        principals=session.answer(
            "eks:ListAccessEntries", lambda: _principals(session, cluster.name)
        )
        if cluster.access
        else frozenset(),
        associations=session.answer(
            "eks:ListPodIdentityAssociations", lambda: _associations(session, cluster.name)
        )
        if cluster.pod_identities
        else {},
        auto_mode=bool(description.get("computeConfig", {}).get("enabled")),
        inside=_inside(session, cluster, description) if may_ask(reached) else None,
    )


def _inside(
    session: AwsSession, cluster: EksClusterPlan, description: Mapping[str, Any]
) -> OwnerAnswers:
    return ask_inside(
        kubeconfig(
            cluster=cluster.name,
            server=description["endpoint"],
            ca_data=description["certificateAuthority"]["data"],
            plugin=eks_plugin(cluster.name, cluster.region, session.profile),
        )
    )


def _groups(session: AwsSession, cluster: str) -> frozenset[str]:
    pages = session.client("eks").get_paginator("list_nodegroups").paginate(clusterName=cluster)
    return frozenset(name for page in pages for name in page["nodegroups"])


def _principals(session: AwsSession, cluster: str) -> frozenset[str]:
    pages = session.client("eks").get_paginator("list_access_entries").paginate(clusterName=cluster)
    return frozenset(arn for page in pages for arn in page["accessEntries"])


def _associations(session: AwsSession, cluster: str) -> Mapping[tuple[str, str], str]:
    pages = (
        session.client("eks")
        .get_paginator("list_pod_identity_associations")
        .paginate(clusterName=cluster)
    )
    return {
        (association["namespace"], association["serviceAccount"]): association["associationId"]
        for page in pages
        for association in page["associations"]
    }


def _monitored(session: AwsSession, cluster: str) -> bool:
    try:
        session.client("eks").describe_addon(clusterName=cluster, addonName=NODE_MONITORING)
    except session.errors.ClientError as e:
        if code_of(e) != _NOT_THERE:
            raise
        return False
    return True
