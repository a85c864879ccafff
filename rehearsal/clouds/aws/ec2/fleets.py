"""EC2 fleets of type `instant`: instances at once, as far as there are any. The fleet itself leaves
nothing behind.

Source: EC2 API reference, CreateFleet; EC2 user guide, EC2 Fleet, "instant".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2 import instances
from slicewright.rehearsal.clouds.aws.ec2.launch_templates import find_template, template_data
from slicewright.rehearsal.clouds.aws.ec2.resources import new_id
from slicewright.rehearsal.clouds.aws.ec2.subnets import find_subnet
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import SPOT_ROLE
from slicewright.rehearsal.clouds.aws.machines import machines, vcpu_quota
from slicewright.rehearsal.clouds.aws.state import INSTANCE_PROFILES
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import not_simulated


@dataclass(frozen=True, kw_only=True)
class OfGroups:
    """What EKS's node groups take of the account, which EKS's part knows."""

    vcpus: Callable[[Context, str, str], int]
    """Region and quota code -> vCPU."""
    in_zone: Callable[[Context, str, str, str], int]
    """Region, instance type and zone id -> how many instances."""
    instances: Callable[[Context, str], list[JsonObject]]
    """Region -> instances as EC2 describes them."""


class Fleets:
    def __init__(self, context: Context, of_groups: OfGroups) -> None:
        self._context = context
        self._of_groups = of_groups

    def methods(self) -> Methods:
        return {"CreateFleet": self._create}

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        if body.get("Type") != "instant":
            raise not_simulated("The rehearsal's cloud simulates fleets of type instant only.")
        target = body["TargetCapacitySpecification"]
        spot = target.get("DefaultTargetCapacityType") == "spot"
        tags = {
            specification["ResourceType"]: {
                t["Key"]: t.get("Value", "") for t in specification.get("Tags", ())
            }
            for specification in body.get("TagSpecifications", ())
        }
        with self._context.store.lock:
            started: list[tuple[JsonObject, JsonObject]] = []
            refused: list[JsonObject] = []
            for _ in range(int(target["TotalTargetCapacity"])):
                instance, why = self._launch_instance(
                    params["region"], body["LaunchTemplateConfigs"], spot, tags
                )
                if instance is None:
                    refused = why
                    break
                started.append(instance)
        lifecycle = "spot" if spot else "on-demand"
        answer: JsonObject = {
            "FleetId": new_id("fleet"),
            "Errors": [{**error, "Lifecycle": lifecycle} for error in refused],
            "Instances": [
                {
                    "InstanceIds": [instance["InstanceId"]],
                    "InstanceType": instance["InstanceType"],
                    "Lifecycle": lifecycle,
                    "LaunchTemplateAndOverrides": overrides,
                }
                for instance, overrides in started
            ],
        }
        return answer

    def _launch_instance(
        self,
        region: str,
        configs: Sequence[Mapping[str, Any]],
        spot: bool,
        tags: Mapping[str, Mapping[str, str]],
    ) -> tuple[tuple[JsonObject, JsonObject] | None, list[JsonObject]]:
        """An instance and what it was made of, or why there is none of any of the overrides."""
        refused = []
        for config in configs:
            named = config["LaunchTemplateSpecification"]
            _, template = find_template(
                self._context.store,
                region,
                named.get("LaunchTemplateId"),
                named.get("LaunchTemplateName"),
            )
            data = template_data(template, str(named.get("Version", "$Default")))
            self._check_profile(data)
            for override in config.get("Overrides", ()):
                launched = {
                    "LaunchTemplateSpecification": {
                        "LaunchTemplateId": template["LaunchTemplateId"],
                        "Version": str(named.get("Version", "$Default")),
                    },
                    "Overrides": dict(override),
                }
                why = self._refusal(region, override, spot)
                if why is None:
                    of_template = {
                        specification["ResourceType"]: {
                            t["Key"]: t["Value"] for t in specification["Tags"]
                        }
                        for specification in data.get("TagSpecifications", ())
                    }
                    subnet = find_subnet(self._context, region, override["SubnetId"])
                    assert subnet is not None
                    instance = instances.start(
                        self._context,
                        region,
                        instance_type=override["InstanceType"],
                        subnet=subnet,
                        data=data,
                        spot=spot,
                        tags={**of_template, **tags},
                    )
                    return (instance, launched), []
                code, message = why
                refused.append(
                    {
                        "ErrorCode": code,
                        "ErrorMessage": message,
                        "LaunchTemplateAndOverrides": launched,
                    }
                )
        return None, refused

    def _check_profile(self, data: Mapping[str, Any]) -> None:
        name = data.get("IamInstanceProfile", {}).get("Name")
        profile = self._context.store.get(INSTANCE_PROFILES, name) if name else None
        if name and (profile is None or not profile["RoleName"]):
            raise aws_error(
                "InvalidParameterValue",
                f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM "
                "Instance Profile name",
            )

    def _refusal(
        self, region: str, override: Mapping[str, Any], spot: bool
    ) -> tuple[str, str] | None:
        """Code and message of EC2's refusal. Sources: those of rehearsal/clouds/aws/eks/capacity;
        aws/karpenter-provider-aws, pkg/errors/errors.go.
        """
        kind, account = override["InstanceType"], account_of(self._context)
        subnet = find_subnet(self._context, region, override["SubnetId"])
        if subnet is None:
            missing = override["SubnetId"]
            return "InvalidSubnetID.NotFound", f"The subnet ID '{missing}' does not exist"
        if spot and not account.spot_role:
            return (
                "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
                "The provided credentials do not have permission to create the service-linked role "
                f"for EC2 Spot Instances ({SPOT_ROLE}).",
            )
        code = vcpu_quota(kind, spot=spot)
        if code is not None:
            quota = self._context.faults.quota(code)
            limit = account.vcpus.get(code) if quota is None else quota
            used = self._of_groups.vcpus(self._context, region, code)
            used += instances.vcpus_of_instances(self._context, region, code)
            if limit is not None and used + machines()[kind].vcpu > limit:
                return (
                    "VcpuLimitExceeded",
                    "You have requested more vCPU capacity than your current vCPU limit of "
                    f"{limit} allows for the instance bucket that the specified instance type "
                    "belongs to.",
                )
        zone = subnet["AvailabilityZoneId"]
        stock = account.stock.get(kind, {}).get(zone)
        running_by_zone = Counter(
            subnet_record["AvailabilityZoneId"]
            for instance in instances.running(self._context, region)
            if instance["InstanceType"] == kind
            and (subnet_record := find_subnet(self._context, region, instance["SubnetId"]))
            is not None
        )[zone] + self._of_groups.in_zone(self._context, region, kind, zone)
        if stock is not None and running_by_zone >= stock:
            return (
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {kind} capacity in the Availability Zone you "
                f"requested ({subnet['AvailabilityZone']}).",
            )
        return None
