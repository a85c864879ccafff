"""Lists the load balancers and target groups of an AWS account that are marked as a cluster's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from slicewright.doctor.ask.aws.session import AwsSession
from slicewright.teardown.sweep.aws_proofs import Balancer, balancer_leftover, target_group_leftover
from slicewright.teardown.sweep.leftovers import Leftover
from slicewright.teardown.sweep.life import Life

_TAGS_OF: Final = 20
"""The limit of load balancers or target groups in one DescribeTags. Source: Elastic Load
Balancing's API references.
"""
_Tags = list[dict[str, str]]


def classic_balancers(session: AwsSession, cluster: str, life: Life) -> list[Balancer]:
    """Lists load balancers of the first generation."""
    elb = session.client("elb")
    pages = elb.get_paginator("describe_load_balancers").paginate()
    by_name = {b["LoadBalancerName"]: b for p in pages for b in p["LoadBalancerDescriptions"]}

    def tags_of(names: list[str]) -> list[tuple[str, _Tags]]:
        described = elb.describe_tags(LoadBalancerNames=names)["TagDescriptions"]
        return [(d["LoadBalancerName"], d["Tags"]) for d in described]

    tags = _in_batches([*by_name], tags_of)
    return [balancer_leftover(by_name[name], tags[name], cluster, life) for name in tags]


def balancers(session: AwsSession, cluster: str, life: Life) -> list[Balancer]:
    """Lists application, network and gateway load balancers."""
    pages = session.client("elbv2").get_paginator("describe_load_balancers").paginate()
    by_arn = {b["LoadBalancerArn"]: b for page in pages for b in page["LoadBalancers"]}
    tags = _in_batches([*by_arn], lambda arns: _tags(session, arns))
    return [balancer_leftover(by_arn[arn], tags[arn], cluster, life) for arn in tags]


def target_groups(
    session: AwsSession, cluster: str, life: Life, proven_balancers: frozenset[str]
) -> list[Leftover]:
    """Target groups outlive their load balancer and hold no data. An account may have 3000 of
    them.

    Source: Elastic Load Balancing, "Quotas for your Network Load Balancers".
    """
    pages = session.client("elbv2").get_paginator("describe_target_groups").paginate()
    by_arn = {g["TargetGroupArn"]: g for page in pages for g in page["TargetGroups"]}
    tags = _in_batches([*by_arn], lambda arns: _tags(session, arns))
    groups = [
        target_group_leftover(by_arn[arn], tags[arn], cluster, life, proven_balancers)
        for arn in tags
    ]
    return [group for group in groups if group.mark]


def _tags(session: AwsSession, arns: list[str]) -> list[tuple[str, _Tags]]:
    described = session.client("elbv2").describe_tags(ResourceArns=arns)["TagDescriptions"]
    return [(d["ResourceArn"], d["Tags"]) for d in described]


def _in_batches(
    identities: Sequence[str], tags_of: Callable[[list[str]], list[tuple[str, _Tags]]]
) -> dict[str, _Tags]:
    """Returns the tags of each, asked for in batches as large as the API allows."""
    return {
        identity: tags
        for first in range(0, len(identities), _TAGS_OF)
        for identity, tags in tags_of(list(identities[first : first + _TAGS_OF]))
    }
