"""What Karpenter does in the account, with the rights of the role that its pods have.

Each call is one of the simulated EC2 or IAM. Sources: aws/karpenter-provider-aws,
pkg/providers/{instance,instanceprofile,launchtemplate}, pkg/utils/utils.go (tags).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.fleets import Fleets
from slicewright.rehearsal.clouds.aws.ec2.instances import Instances, is_running
from slicewright.rehearsal.clouds.aws.ec2.launch_templates import LaunchTemplates
from slicewright.rehearsal.clouds.aws.eks.karpenter_objects import CLASS_LABEL, POOL_LABEL
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.instance_profiles import InstanceProfiles
from slicewright.rehearsal.clouds.aws.role_policies import permits
from slicewright.rehearsal.clouds.core.context import Methods
from slicewright.rehearsal.clouds.core.errors import CloudError

_PASSED_TO = "ec2.amazonaws.com"


class Refused(Exception):
    """The role of Karpenter's pods may not do it, or EC2 does not; the message says what."""


@dataclass(frozen=True)
class Services:
    """Of the simulated account."""

    instances: Instances
    fleets: Fleets
    templates: LaunchTemplates
    profiles: InstanceProfiles

    def methods(self) -> Methods:
        parts = (self.instances, self.fleets, self.templates, self.profiles)
        return {name: method for part in parts for name, method in part.methods().items()}


@dataclass(frozen=True, kw_only=True)
class Account:
    """Of one cluster's Karpenter."""

    services: Services
    role: JsonObject
    """That its pods have."""
    region: str
    cluster: str

    def tags(self, *, node_class: str, pool: str | None = None) -> Mapping[str, str]:
        """Of what is launched for a pool, or of what is made for a class alone."""
        return {
            f"kubernetes.io/cluster/{self.cluster}": "owned",
            "eks:eks-cluster-name": self.cluster,
            CLASS_LABEL: node_class,
            **({POOL_LABEL: pool} if pool else {"topology.kubernetes.io/region": self.region}),
        }

    def make_profile(self, node_class: JsonObject) -> None:
        """With the class's role in it; does nothing where it is there."""
        meta, name = node_class["metadata"], self.profile_of(node_class)
        tags = self.tags(node_class=meta["name"])
        of_request = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
        of_resource = {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
        arn = f"arn:aws:iam::{ACCOUNT}:instance-profile/{name}"
        try:
            self._call("GetInstanceProfile", "iam", arn, {}, InstanceProfileName=name)
            return
        except CloudError as e:
            if e.reason != "NoSuchEntity":
                raise
        self._call(
            "CreateInstanceProfile",
            "iam",
            arn,
            of_request,
            InstanceProfileName=name,
            Path=f"/karpenter/{self.region}/{self.cluster}/{meta['uid']}/",
            Tags=_tag_list(tags),
        )
        role = node_class["spec"]["role"]
        node_role = f"arn:aws:iam::{ACCOUNT}:role/{role}"
        self._require("iam:PassRole", node_role, {"iam:PassedToService": _PASSED_TO})
        held = {"InstanceProfileName": name, "RoleName": role}
        self._call("AddRoleToInstanceProfile", "iam", arn, of_resource, **held)

    def forget(self, node_class: JsonObject) -> None:
        """Deletes the class's launch templates and its instance profile."""
        name = node_class["metadata"]["name"]
        tags = {"eks:eks-cluster-name": self.cluster, CLASS_LABEL: name}
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        templates = self._call(
            "DescribeLaunchTemplates", "ec2", "*", self._region_condition, Filters=filters
        )
        for template in templates["LaunchTemplates"]:
            identity = template["LaunchTemplateId"]
            arn = f"arn:aws:ec2:{self.region}:{ACCOUNT}:launch-template/{identity}"
            context = _resource_tag_keys(template["Tags"])
            self._call("DeleteLaunchTemplate", "ec2", arn, context, LaunchTemplateId=identity)
        profile = {"InstanceProfileName": self.profile_of(node_class)}
        arn = f"arn:aws:iam::{ACCOUNT}:instance-profile/{profile['InstanceProfileName']}"
        try:
            described_profile = self._call("GetInstanceProfile", "iam", arn, {}, **profile)[
                "InstanceProfile"
            ]
        except CloudError as e:
            if e.reason != "NoSuchEntity":
                raise
            return
        context = _resource_tag_keys(described_profile["Tags"])
        for role in described_profile["Roles"]:
            held = {**profile, "RoleName": role["RoleName"]}
            self._call("RemoveRoleFromInstanceProfile", "iam", arn, context, **held)
        self._call("DeleteInstanceProfile", "iam", arn, context, **profile)

    def launch(
        self, node_class: JsonObject, *, pool: str, types: Sequence[str], spot: bool
    ) -> JsonObject:
        """An instance, as EC2 describes it. Raises Refused, CloudError."""
        tags = {
            **(node_class["spec"].get("tags") or {}),
            **self.tags(node_class=node_class["metadata"]["name"], pool=pool),
        }
        template = self._template(node_class, tags)
        overrides = [
            {"InstanceType": kind, "SubnetId": term["id"]}
            for kind in types
            for term in node_class["spec"]["subnetSelectorTerms"]
        ]
        of_request = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
        for kind in ("fleet", "instance", "volume", "network-interface"):
            arn = f"arn:aws:ec2:{self.region}:{ACCOUNT}:{kind}/*"
            self._require("ec2:CreateFleet", arn, of_request)
            conditions = {**of_request, "ec2:CreateAction": "CreateFleet"}
            self._require("ec2:CreateTags", arn, conditions)
            if kind != "fleet":
                self._require("ec2:RunInstances", arn, of_request)
        role = f"arn:aws:iam::{ACCOUNT}:role/{node_class['spec']['role']}"
        self._require("iam:PassRole", role, {"iam:PassedToService": _PASSED_TO})
        answer = self._call(
            "CreateFleet",
            "ec2",
            f"arn:aws:ec2:{self.region}:{ACCOUNT}:launch-template/{template}",
            of_request,
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                    "Overrides": overrides,
                }
            ],
            TargetCapacitySpecification={
                "TotalTargetCapacity": 1,
                "DefaultTargetCapacityType": "spot" if spot else "on-demand",
            },
            TagSpecifications=[
                {"ResourceType": kind, "Tags": _tag_list(tags)} for kind in ("instance", "volume")
            ],
        )
        if not answer["Instances"]:
            first = answer["Errors"][0]
            raise Refused(f"{first['ErrorCode']}: {first['ErrorMessage']}")
        (identity,) = answer["Instances"][0]["InstanceIds"]
        instance = self.instance(identity)
        assert instance is not None
        return instance

    def _template(self, node_class: JsonObject, tags: Mapping[str, str]) -> str:
        """The ID of the one for this class and these tags, made where it is not there."""
        spec = node_class["spec"]
        made_of = f"{node_class['metadata']['uid']}{sorted(tags.items())}{spec}"
        name = f"karpenter.k8s.aws/{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
        by_name = [{"Name": "launch-template-name", "Values": [name]}]
        templates = self._call(
            "DescribeLaunchTemplates", "ec2", "*", self._region_condition, Filters=by_name
        )
        if templates["LaunchTemplates"]:
            return str(templates["LaunchTemplates"][0]["LaunchTemplateId"])
        disks = [
            {
                "DeviceName": mapping["deviceName"],
                "Ebs": {
                    "VolumeSize": int(mapping["ebs"]["volumeSize"].removesuffix("Gi")),
                    "VolumeType": mapping["ebs"]["volumeType"],
                    "Encrypted": mapping["ebs"].get("encrypted", False),
                    "DeleteOnTermination": mapping["ebs"].get("deleteOnTermination", True),
                },
            }
            for mapping in spec.get("blockDeviceMappings", ())
        ]
        answer = self._call(
            "CreateLaunchTemplate",
            "ec2",
            f"arn:aws:ec2:{self.region}:{ACCOUNT}:launch-template/*",
            {f"aws:RequestTag/{key}": value for key, value in tags.items()},
            LaunchTemplateName=name,
            LaunchTemplateData={
                "IamInstanceProfile": {"Name": self.profile_of(node_class)},
                "BlockDeviceMappings": disks,
                "SecurityGroupIds": [t["id"] for t in spec["securityGroupSelectorTerms"]],
                "TagSpecifications": [
                    {"ResourceType": "network-interface", "Tags": _tag_list(tags)}
                ],
            },
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": _tag_list(tags)}],
        )
        return str(answer["LaunchTemplate"]["LaunchTemplateId"])

    def instance(self, identity: str) -> JsonObject | None:
        """None: it has ended."""
        by_id = [{"Name": "instance-id", "Values": [identity]}]
        answer = self._call("DescribeInstances", "ec2", "*", self._region_condition, Filters=by_id)
        listed = [
            instance
            for r in answer["Reservations"]
            for instance in r["Instances"]
            if is_running(instance)
        ]
        return listed[0] if listed else None

    def terminate(self, instance: JsonObject) -> None:
        identity = instance["InstanceId"]
        arn = f"arn:aws:ec2:{self.region}:{ACCOUNT}:instance/{identity}"
        context = _resource_tag_keys(instance["Tags"])
        self._call("TerminateInstances", "ec2", arn, context, InstanceIds=[identity])

    def profile_of(self, node_class: JsonObject) -> str:
        seed = f"{self.region}{node_class['metadata']['uid']}"
        return f"{self.cluster}_{hashlib.sha256(seed.encode()).hexdigest()[:20]}"

    @property
    def _region_condition(self) -> Mapping[str, str]:
        return {"aws:RequestedRegion": self.region}

    def _call(
        self, operation: str, service: str, arn: str, context: Mapping[str, str], **body: object
    ) -> JsonObject:
        self._require(f"{service}:{operation}", arn, context)
        return self.services.methods()[operation]({"region": self.region}, body)

    def _require(self, action: str, arn: str, context: Mapping[str, str]) -> None:
        """Raises Refused."""
        values = {key.lower(): [value] for key, value in context.items()}
        if not permits(self.role, action, arn, values):
            raise Refused(
                f"UnauthorizedOperation: {self.role['Arn']} is not authorized to perform {action} "
                f"on resource {arn}"
            )


def _tag_list(tags: Mapping[str, str]) -> list[JsonObject]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def _resource_tag_keys(tags: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    return {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in tags}
