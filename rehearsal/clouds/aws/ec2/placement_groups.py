"""EC2 placement groups. Sources: EC2 API reference, error codes (InvalidPlacementGroup.*); EC2 user
guide, placement groups.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.launch_templates import find_template, template_data
from slicewright.rehearsal.clouds.aws.ec2.operations import Operations
from slicewright.rehearsal.clouds.aws.ec2.resources import missing, new_id, public_fields, tags_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS, PLACEMENT_GROUPS
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError, not_simulated

_MOST = 500
"""Of an account in a region."""
_NAME_MAX = 255


class PlacementGroups(Operations):
    kind = PLACEMENT_GROUPS

    def methods(self) -> Methods:
        return {
            **super().methods(),
            "CreatePlacementGroup": self._create,
            "DescribePlacementGroups": self._describe,
        }

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        region, name = params["region"], body.get("GroupName")
        if not name or len(name) > _NAME_MAX:
            raise missing("groupName")
        if body.get("Strategy", "cluster") != "cluster":
            raise not_simulated("The rehearsal's cloud simulates the strategy cluster only.")
        with self._store.lock:
            if find_group(self._context, region, name) is not None:
                raise aws_error(
                    "InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' exists."
                )
            if len(self._ec2.all(PLACEMENT_GROUPS, params)) >= _MOST:
                raise aws_error(
                    "PlacementGroupLimitExceeded",
                    f"You have reached the limit of {_MOST} placement groups.",
                )
            group = {
                "GroupName": name,
                "GroupId": new_id("pg"),
                "GroupArn": f"arn:aws:ec2:{region}:{ACCOUNT}:placement-group/{name}",
                "State": "available",
                "Strategy": "cluster",
                "Tags": tags_of(body, "placement-group"),
            }
            return {"PlacementGroup": self._ec2.create(PLACEMENT_GROUPS, params, group)}

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        describe = self._ec2.describe(PLACEMENT_GROUPS)
        names = body.get("GroupNames")
        if not names:
            return describe(params, body)
        with self._store.lock:
            ids = [self._required_group(params, name)["GroupId"] for name in names]
            return describe(params, {"GroupIds": ids})

    def _required_group(self, params: JsonObject, name: str) -> JsonObject:
        group = find_group(self._context, params["region"], name)
        if group is None:
            raise unknown_group(name)
        return group

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            return super()._delete(params, self._required_group(params, body["GroupName"]))

    def _check_unused(self, params: JsonObject, resource: JsonObject) -> None:
        name = resource["GroupName"]
        if self._is_used(params["region"], name):
            raise aws_error(
                "InvalidPlacementGroup.InUse",
                f"The placement group '{name}' is in use and may not be deleted.",
            )

    def _is_used(self, region: str, name: str) -> bool:
        """Whether a node group has instances in it."""
        for item in self._store.values(NODE_GROUPS, prefix=f"{region}/"):
            template = item["nodegroup"].get("launchTemplate")
            if not template or not item["nodes"]:
                continue
            try:
                _, version = find_template(self._store, region, template["id"], None)
            except CloudError:
                continue
            if group_of(template_data(version, template["version"])) == name:
                return True
        return False


def group_of(template: JsonObject) -> str | None:
    """template: the data of a launch template."""
    name = (template.get("Placement") or {}).get("GroupName")
    return str(name) if name else None


def find_group(context: Context, region: str, name: str) -> JsonObject | None:
    groups = context.store.values(PLACEMENT_GROUPS, prefix=f"{region}/")
    return next((public_fields(group) for group in groups if group["GroupName"] == name), None)


def unknown_group(name: str) -> CloudError:
    return aws_error("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
