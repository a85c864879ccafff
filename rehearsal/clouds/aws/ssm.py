"""The simulated SSM: the public parameters of EKS's AMIs for GPUs, and no others.

Sources: EKS user guide, "Retrieve recommended Amazon Linux AMI IDs"; awslabs/amazon-eks-ami #1843
for the paths of single releases.
"""

from __future__ import annotations

import re

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.eks.checks import AMI_RELEASE, VERSIONS, default_release
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.core.context import Methods

_RELEASE = re.compile(
    r"/aws/service/eks/optimized-ami/(?P<version>1\.\d+)/amazon-linux-2023/(?P<arch>x86_64|arm64)/"
    r"nvidia/(?:recommended|amazon-eks-node-al2023-(?P=arch)-nvidia-(?P=version)-v(?P<day>\d{8}))/"
    "release_version"
)


class Ssm:
    def methods(self) -> Methods:
        return {"GetParameter": _get}


def _get(params: JsonObject, body: JsonObject) -> JsonObject:
    """There is one release of each Kubernetes version."""
    name = body["Name"]
    parts = _RELEASE.fullmatch(name)
    published = parts and parts["version"] in VERSIONS and parts["day"] in (None, AMI_RELEASE)
    if not parts or not published:
        raise aws_error("ParameterNotFound", "")
    return {
        "Parameter": {
            "Name": name,
            "Type": "String",
            "Value": default_release(parts["version"]),
            "Version": 1,
            "ARN": f"arn:aws:ssm:{params['region']}::parameter{name}",
            "DataType": "text",
        }
    }
