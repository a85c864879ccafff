"""Checks of an EKS cluster's own settings, by the rules of the EKS API."""

from __future__ import annotations

import ipaddress
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.catalog import AwsRegion
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.machines.regions import check_key_region
from slicewright.infra.stack_file.schema.constraints import ConstraintError, DnsLabel

EVERYWHERE: Final = "0.0.0.0/0"
_ENDPOINT = ("cluster", "endpoint")
_MOST_CIDRS = 40
_DOCS = "EKS docs, cluster API server endpoint"
_PRIVATE: Final = tuple(
    ipaddress.IPv4Network(block) for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
)


_NEW_NAME: Final = DnsLabel(
    63, "Kubernetes docs, labels (EKS itself allows 100 characters)", "main"
)


@rule("eks-cluster-name")
def check_name(cluster: stack_file.EksCluster) -> Checked[None]:
    """Refuses a name of a new cluster that no label can have. An existing one has its name."""
    if cluster.existing:
        return
    try:
        _NEW_NAME.check(cluster.name)
    except ConstraintError as e:
        reason = str(e).replace("{value}", cluster.name)
        yield refuse(("cluster", "name"), reason, e.instead, e.source)


@rule("eks-endpoint")
def check_endpoint(endpoint: stack_file.EksEndpoint) -> Checked[None]:
    if not endpoint.public and not endpoint.private:
        yield refuse(
            _ENDPOINT, "is neither public nor private", "write public: true or private: true", _DOCS
        )
    if not endpoint.public_cidrs:
        return
    path = (*_ENDPOINT, "public_cidrs")
    if not endpoint.public:
        yield refuse(path, "the endpoint is not public", "leave it out", _DOCS)
    elif not endpoint.private and EVERYWHERE not in endpoint.public_cidrs:
        yield refuse(
            path,
            "nodes reach a public endpoint from their public addresses, which are not in these "
            "ranges",
            "write private: true beside it",
            _DOCS,
        )
    if len(endpoint.public_cidrs) > _MOST_CIDRS:
        yield refuse(
            path,
            f"{len(endpoint.public_cidrs)} ranges are too many: EKS allows {_MOST_CIDRS}",
            "join some",
            "EKS docs, service quotas",
        )
    for i, cidr in enumerate(endpoint.public_cidrs):
        block = ipaddress.ip_network(cidr)
        if not isinstance(block, ipaddress.IPv4Network):
            yield refuse(
                (*path, i),
                f"{cidr} is a range of IPv6, and the cluster has an IPv4 endpoint",
                "write ranges of IPv4",
                _DOCS,
            )
        elif any(block.subnet_of(private) for private in _PRIVATE):
            yield refuse(
                (*path, i),
                f"{cidr} is a private range: no request reaches a public endpoint from it",
                "write ranges of public addresses; for those of the VPC, private: true",
                _DOCS,
            )


def check_secrets_key(arn: str | None, region: AwsRegion | None) -> Checked[None]:
    if arn is not None:
        yield from check_key_region(
            arn,
            ("cluster", "secrets_key"),
            region,
            "the cluster is",
            "EKS user guide, encrypt Kubernetes secrets with KMS",
        )
