"""aws:ec2/launchTemplate:LaunchTemplate.

A change of its data creates a new version; only a change of its name replaces it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.plugins.bridge.fields import Field, Fields, from_api, to_api
from slicewright.rehearsal.plugins.bridge.resources import (
    Autoname,
    CreateResult,
    Session,
    State,
    not_simulated,
)
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.aws.calls import (
    call,
    capital,
    or_none,
    region_of,
    tag_list,
    tag_map,
    tag_specifications,
)
from slicewright.rehearsal.plugins.providers.aws.ec2_resource import Ec2Resource

_EBS = capital(
    "volumeSize",
    "volumeType",
    "iops",
    "throughput",
    "kmsKeyId",
    "snapshotId",
    "deleteOnTermination",
    "encrypted",
)
_TARGET = capital("capacityReservationId", "capacityReservationResourceGroupArn")
_INTERFACE = capital(
    "deviceIndex",
    "networkCardIndex",
    "interfaceType",
    "deleteOnTermination",
    "associatePublicIpAddress",
    "subnetId",
)
_DATA: Fields = {
    **capital(
        "imageId",
        "instanceType",
        "keyName",
        "userData",
        "ebsOptimized",
        "instanceInitiatedShutdownBehavior",
    ),
    "vpcSecurityGroupIds": Field(api="SecurityGroupIds", unordered=True),
    "blockDeviceMappings": Field(
        api="BlockDeviceMappings",
        many=True,
        of={**capital("deviceName", "noDevice", "virtualName"), "ebs": Field(api="Ebs", of=_EBS)},
    ),
    "metadataOptions": Field(
        api="MetadataOptions",
        of=capital(
            "httpEndpoint",
            "httpTokens",
            "httpPutResponseHopLimit",
            "httpProtocolIpv6",
            "instanceMetadataTags",
        ),
    ),
    "monitoring": Field(api="Monitoring", of=capital("enabled")),
    "placement": Field(
        api="Placement", of=capital("groupName", "availabilityZone", "tenancy", "partitionNumber")
    ),
    "instanceMarketOptions": Field(api="InstanceMarketOptions", of=capital("marketType")),
    "capacityReservationSpecification": Field(
        api="CapacityReservationSpecification",
        of={
            **capital("capacityReservationPreference"),
            "capacityReservationTarget": Field(api="CapacityReservationTarget", of=_TARGET),
        },
    ),
    "networkInterfaces": Field(
        api="NetworkInterfaces",
        many=True,
        of={
            **_INTERFACE,
            "securityGroups": Field(api="Groups"),
            "description": Field(api="Description"),
        },
    ),
}
# Strings in Pulumi ("true"), booleans in the API.
_TEXT_BOOLEANS = ("deleteOnTermination", "encrypted", "associatePublicIpAddress", "ebsOptimized")
_EXTRA_FIELDS = (
    "name",
    "namePrefix",
    "description",
    "tags",
    "tagSpecifications",
    "updateDefaultVersion",
    "defaultVersion",
    "region",
)


class LaunchTemplate(Ec2Resource):
    kind = "aws:ec2/launchTemplate:LaunchTemplate"
    force_new = ("name", "namePrefix", "region")
    sets = ("vpcSecurityGroupIds",)
    keeps = ("name", "defaultVersion", "region")
    keeps_of_inputs = ("namePrefix", "updateDefaultVersion", "region")
    autoname = Autoname("name", 125, prefix_property="namePrefix")
    update_unknowns = {  # noqa: RUF012
        "latestVersion": (*_DATA, "tagSpecifications", "description"),
        "defaultVersion": (*_DATA, "tagSpecifications", "description"),
    }

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        failures = not_simulated(inputs, {*_DATA, *_EXTRA_FIELDS})
        if "defaultVersion" in inputs and "updateDefaultVersion" in inputs:
            failures.append(CheckFailure("updateDefaultVersion", "conflicts with defaultVersion"))
        return failures

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        created = call(
            session,
            inputs,
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName=inputs.get("name")
            or f"{inputs['namePrefix']}{secrets.token_hex(8)}",
            VersionDescription=inputs.get("description"),
            LaunchTemplateData=_data(inputs),
            TagSpecifications=tag_specifications("launch-template", inputs),
        )
        return CreateResult(created["LaunchTemplate"]["LaunchTemplateId"])

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        answer = or_none(
            session, inputs, "ec2", "DescribeLaunchTemplates", LaunchTemplateIds=[resource_id]
        )
        if answer is None:
            return None
        template = answer["LaunchTemplates"][0]
        versions = call(
            session,
            inputs,
            "ec2",
            "DescribeLaunchTemplateVersions",
            LaunchTemplateId=resource_id,
            Versions=["$Latest"],
        )
        latest = versions["LaunchTemplateVersions"][0]
        data = _texts(latest["LaunchTemplateData"])
        read_inputs = from_api(_DATA, data, inputs or None)
        specifications = [
            {"resourceType": s["ResourceType"], "tags": tag_map(s.get("Tags"))}
            for s in data.get("TagSpecifications", [])
        ]
        if specifications:
            read_inputs["tagSpecifications"] = specifications
        if latest["VersionDescription"]:
            read_inputs["description"] = latest["VersionDescription"]
        if "namePrefix" not in inputs:
            read_inputs["name"] = template["LaunchTemplateName"]
        if "defaultVersion" in inputs:
            read_inputs["defaultVersion"] = template["DefaultVersionNumber"]
        region = region_of(session, inputs)
        outputs = {
            **from_api(_DATA, data, None),
            "name": template["LaunchTemplateName"],
            "latestVersion": template["LatestVersionNumber"],
            "defaultVersion": template["DefaultVersionNumber"],
            "arn": f"arn:aws:ec2:{region}:{ACCOUNT}:launch-template/{resource_id}",
        }
        return self.state(
            session, inputs, tags=template["Tags"], read_inputs=read_inputs, outputs=outputs
        )

    def change(self, session: Session, resource_id: str, old: Properties, new: Properties) -> None:
        version = None
        if _data(old) != _data(new) or old.get("description") != new.get("description"):
            created = call(
                session,
                new,
                "ec2",
                "CreateLaunchTemplateVersion",
                LaunchTemplateId=resource_id,
                LaunchTemplateData=_data(new),
                VersionDescription=new.get("description"),
            )
            version = created["LaunchTemplateVersion"]["VersionNumber"]
        default = new.get("defaultVersion") or (
            version if new.get("updateDefaultVersion") else None
        )
        if default:
            call(
                session,
                new,
                "ec2",
                "ModifyLaunchTemplate",
                LaunchTemplateId=resource_id,
                DefaultVersion=str(default),
            )

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        or_none(session, inputs, "ec2", "DeleteLaunchTemplate", LaunchTemplateId=resource_id)


def _data(inputs: Properties) -> JsonObject:
    data = _booleans(to_api(_DATA, {k: v for k, v in inputs.items() if k in _DATA}))
    specifications = inputs.get("tagSpecifications")
    if specifications:
        data["TagSpecifications"] = [
            {"ResourceType": s["resourceType"], "Tags": tag_list(s.get("tags"))}
            for s in specifications
        ]
    return dict(data)


def _booleans(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _booleans(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_booleans(v) for v in value]
    lower = name[:1].lower() + name[1:]
    return value == "true" if lower in _TEXT_BOOLEANS and isinstance(value, str) else value


def _texts(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _texts(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_texts(v) for v in value]
    lower = name[:1].lower() + name[1:]
    return str(value).lower() if lower in _TEXT_BOOLEANS and isinstance(value, bool) else value
