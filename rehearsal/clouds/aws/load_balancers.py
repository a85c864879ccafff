"""Elastic Load Balancing, both generations: what Services of a deleted cluster have left.

A Service's load balancer is a classic one, or a network load balancer where its annotation asks for
that, with a target group for each of its ports, which outlives the load balancer. Source:
Kubernetes' cloud-provider-aws, "Service controller", pkg/providers/v1/aws_loadbalancer.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import (
    add_balancer_group,
    add_interface,
    detach_interfaces,
    owned_by,
    tag_list,
)
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import LOAD_BALANCERS, SUBNETS, TARGET_GROUPS
from slicewright.rehearsal.clouds.aws.zones import in_known_regions
from slicewright.rehearsal.clouds.core.context import Context, Methods, now
from slicewright.rehearsal.clouds.core.errors import CloudError

_TYPE = "service.beta.kubernetes.io/aws-load-balancer-type"
_SCHEME = "service.beta.kubernetes.io/aws-load-balancer-internal"


class LoadBalancers:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def classic_methods(self) -> Methods:
        handlers = {
            "DescribeLoadBalancers": self._describe_classic,
            "DeleteLoadBalancer": self._delete_classic,
            "DescribeTags": self._tags_of_classic,
        }
        return in_known_regions(handlers, _no_region)

    def methods(self) -> Methods:
        """Of the second version."""
        handlers = {
            "DescribeLoadBalancers": self._describe,
            "DeleteLoadBalancer": self._delete,
            "DescribeTags": self._tags,
            "DescribeTargetGroups": self._describe_groups,
            "DeleteTargetGroup": self._delete_group,
        }
        return in_known_regions(handlers, _no_region)

    def inventory(self) -> list[JsonObject]:
        return [
            {"kind": kind, "name": key}
            for kind, records in (
                ("elb.loadBalancer", LOAD_BALANCERS),
                ("elbv2.targetGroup", TARGET_GROUPS),
            )
            for key, _ in self._store.items(records)
        ]

    def _balancers(self, params: JsonObject, *, classic: bool) -> dict[str, JsonObject]:
        """By name."""
        balancers = self._store.values(LOAD_BALANCERS, prefix=f"{params['region']}/")
        return {b["name"]: b for b in balancers if (b["arn"] is None) == classic}

    def _describe_classic(self, params: JsonObject, body: JsonObject) -> JsonObject:
        balancers = self._balancers(params, classic=True)
        for name in body.get("LoadBalancerNames") or ():
            if name not in balancers:
                raise _not_found(f"There is no ACTIVE Load Balancer named '{name}'")
        descriptions = [balancers[name] for name in body.get("LoadBalancerNames") or balancers]
        return {
            "LoadBalancerDescriptions": [
                {
                    "LoadBalancerName": b["name"],
                    "DNSName": b["dns"],
                    "Scheme": b["scheme"],
                    "VPCId": b["vpc"],
                    "Subnets": list(b["subnets"]),
                    "AvailabilityZones": sorted(b["subnets"].values()),
                    "Instances": [],
                    "CreatedTime": b["since"],
                }
                for b in descriptions
            ]
        }

    def _delete_classic(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """One that does not exist is deleted with success, as the API reference says."""
        with self._store.lock:
            self._remove(
                params, self._balancers(params, classic=True).get(body["LoadBalancerName"])
            )
        return {}

    def _tags_of_classic(self, params: JsonObject, body: JsonObject) -> JsonObject:
        balancers, names = self._balancers(params, classic=True), body["LoadBalancerNames"]
        for name in names:
            if name not in balancers:
                raise _not_found(f"There is no ACTIVE Load Balancer named '{name}'")
        descriptions = [
            {"LoadBalancerName": n, "Tags": tag_list(balancers[n]["tags"])} for n in names
        ]
        return {"TagDescriptions": descriptions}

    def _tags(self, params: JsonObject, body: JsonObject) -> JsonObject:
        arns = {b["arn"]: b for b in self._balancers(params, classic=False).values()}
        arns |= {g["arn"]: g for g in self._groups(params).values()}
        if unknown := [a for a in body["ResourceArns"] if a not in arns]:
            if ":targetgroup/" in unknown[0]:
                raise _no_group(unknown)
            raise _not_found(f"Load balancers '[{', '.join(unknown)}]' not found")
        descriptions = [
            {"ResourceArn": a, "Tags": tag_list(arns[a]["tags"])} for a in body["ResourceArns"]
        ]
        return {"TagDescriptions": descriptions}

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        balancers = self._balancers(params, classic=False)
        arns = {b["arn"]: b for b in balancers.values()}
        names, requested_arns = body.get("Names") or [], body.get("LoadBalancerArns") or []
        unknown = [n for n in names if n not in balancers] or [
            a for a in requested_arns if a not in arns
        ]
        if unknown:
            raise _not_found(f"Load balancers '[{', '.join(unknown)}]' not found")
        named = [balancers[n] for n in names] + [arns[a] for a in requested_arns]
        return {
            "LoadBalancers": [
                {
                    "LoadBalancerArn": b["arn"],
                    "LoadBalancerName": b["name"],
                    "DNSName": b["dns"],
                    "Scheme": b["scheme"],
                    "VpcId": b["vpc"],
                    "Type": "network",
                    "State": {"Code": "active"},
                    "IpAddressType": "ipv4",
                    "AvailabilityZones": [
                        {"ZoneName": zone, "SubnetId": subnet}
                        for subnet, zone in b["subnets"].items()
                    ],
                    "CreatedTime": b["since"],
                }
                for b in (named if names or requested_arns else balancers.values())
            ]
        }

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """One that does not exist is deleted with success, as the API reference says."""
        arn = body["LoadBalancerArn"]
        if ":loadbalancer/" not in arn:
            raise aws_error("ValidationError", f"'{arn}' is not a valid load balancer ARN")
        with self._store.lock:
            balancers = self._balancers(params, classic=False).values()
            self._remove(params, next((b for b in balancers if b["arn"] == arn), None))
        return {}

    def _groups(self, params: JsonObject) -> dict[str, JsonObject]:
        """Target groups by name."""
        groups = self._store.values(TARGET_GROUPS, prefix=f"{params['region']}/")
        return {group["name"]: group for group in groups}

    def _describe_groups(self, params: JsonObject, body: JsonObject) -> JsonObject:
        groups = self._groups(params)
        arns = {group["arn"]: group for group in groups.values()}
        names, requested_arns = body.get("Names") or [], body.get("TargetGroupArns") or []
        unknown = [n for n in names if n not in groups] or [
            a for a in requested_arns if a not in arns
        ]
        if unknown:
            raise _no_group(unknown)
        named = [groups[n] for n in names] + [arns[a] for a in requested_arns]
        balancers = {b["arn"] for b in self._balancers(params, classic=False).values()}
        of = body.get("LoadBalancerArn")
        return {
            "TargetGroups": [
                {
                    "TargetGroupArn": g["arn"],
                    "TargetGroupName": g["name"],
                    "Protocol": "TCP",
                    "Port": g["port"],
                    "VpcId": g["vpc"],
                    "TargetType": "instance",
                    "LoadBalancerArns": sorted({g["balancer"]} & balancers),
                }
                for g in (named if names or requested_arns else groups.values())
                if of is None or g["balancer"] == of
            ]
        }

    def _delete_group(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """Source: Elastic Load Balancing API reference, DeleteTargetGroup: in use as long as a
        listener forwards to it.
        """
        arn = body["TargetGroupArn"]
        if ":targetgroup/" not in arn:
            raise aws_error("ValidationError", f"'{arn}' is not a valid target group ARN")
        with self._store.lock:
            group = next((g for g in self._groups(params).values() if g["arn"] == arn), None)
            if group is None:
                return {}
            if group["balancer"] in {
                b["arn"] for b in self._balancers(params, classic=False).values()
            }:
                raise aws_error(
                    "ResourceInUse", f"Target group '{arn}' is currently in use by a listener"
                )
            self._store.delete(TARGET_GROUPS, f"{params['region']}/{group['name']}")
        return {}

    def _remove(self, params: JsonObject, balancer: JsonObject | None) -> None:
        if balancer is not None:
            self._store.delete(LOAD_BALANCERS, f"{params['region']}/{balancer['name']}")
            lasts_s = account_of(self._context).leftovers_s
            description = balancer["interfaces"]
            detach_interfaces(self._context, params["region"], description, lasts_s=lasts_s)


def leave_load_balancer(
    context: Context,
    region: str,
    service: JsonObject,
    *,
    subnets: list[str],
    group: str,
    cluster: str,
) -> None:
    """Puts on record what a Service had, with an interface in each subnet. Can be repeated.

    A classic load balancer has a security group of its own. group: that of the others.
    """
    meta = service["metadata"]
    name = f"a{meta['uid'].replace('-', '')}"[:32]
    if context.store.get(LOAD_BALANCERS, f"{region}/{name}") is not None:
        return
    annotations = meta.get("annotations") or {}
    network = annotations.get(_TYPE, "").startswith(("nlb", "external"))
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    path = f"net/{name}/{digest}"
    places = {s: context.store.get(SUBNETS, f"{region}/{s}") for s in subnets}
    known_places = {identity: subnet for identity, subnet in places.items() if subnet is not None}
    description = f"ELB {path if network else name}"
    internal = annotations.get(_SCHEME) == "true"
    balancer: JsonObject = {
        "name": name,
        "arn": f"arn:aws:elasticloadbalancing:{region}:{ACCOUNT}:loadbalancer/{path}"
        if network
        else None,
        "dns": f"{name}-{digest[:10]}.{'elb.' if network else ''}{region}"
        f"{'' if network else '.elb'}.amazonaws.com",
        "scheme": "internal" if internal else "internet-facing",
        "vpc": next((s["VpcId"] for s in known_places.values()), ""),
        "subnets": {identity: s["AvailabilityZone"] for identity, s in known_places.items()},
        "interfaces": description,
        "tags": {**owned_by(cluster), "kubernetes.io/service-name": _namespaced_name(meta)},
        "since": now(),
    }
    context.store.put(LOAD_BALANCERS, f"{region}/{name}", balancer)
    if network:
        _leave_groups(context, region, service, balancer)
    else:
        group = add_balancer_group(context, region, balancer["vpc"], name, cluster=cluster)
    for subnet in known_places:
        add_interface(
            context,
            region,
            subnet,
            group=group,
            description=description,
            status="in-use",
            lasts_s=None,
        )


def _leave_groups(context: Context, region: str, service: JsonObject, balancer: JsonObject) -> None:
    """With the load balancer's tags, and a name of namespace, Service and a digest. Source:
    cloud-provider-aws, pkg/providers/v1/aws_loadbalancer.go (buildTargetGroupName).
    """
    meta = service["metadata"]
    for port in [p["port"] for p in service["spec"].get("ports") or ({"port": 80},)]:
        digest = hashlib.sha256(f"{meta['uid']}:{port}".encode()).hexdigest()
        space, service_name = meta.get("namespace", "default"), meta.get("name", meta["uid"])
        name = f"k8s-{space[:8]}-{service_name[:8]}-{digest[:10]}"
        arn = f"arn:aws:elasticloadbalancing:{region}:{ACCOUNT}:targetgroup/{name}/{digest[:16]}"
        group: JsonObject = {
            "name": name,
            "arn": arn,
            "port": port,
            "vpc": balancer["vpc"],
            "balancer": balancer["arn"],
            "tags": balancer["tags"],
        }
        context.store.put(TARGET_GROUPS, f"{region}/{name}", group)


def _no_group(unknown: Sequence[str]) -> CloudError:
    return aws_error("TargetGroupNotFound", f"Target groups '[{', '.join(unknown)}]' not found")


def _namespaced_name(meta: JsonObject) -> str:
    return f"{meta.get('namespace', 'default')}/{meta.get('name', meta['uid'])}"


def _not_found(message: str) -> CloudError:
    return aws_error("LoadBalancerNotFound", message)


def _no_region(region: str) -> CloudError:
    return aws_error(
        "InvalidClientTokenId",
        f"The security token included in the request is invalid ({region} is not a region of this "
        "account)",
        code=403,
    )
