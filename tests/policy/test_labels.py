"""What the rule about labels looks at: all that the program makes and a cloud can label."""

from __future__ import annotations

from policy.rules import labels
from slicewright.rehearsal.plugins.providers.aws.provider import AwsProvider
from slicewright.rehearsal.plugins.providers.gcp.provider import GcpProvider


def test_label_rule_covers_every_taggable_aws_resource_of_the_program() -> None:
    schema = AwsProvider.schema
    taggable = {kind for kind in schema.resources if "tags" in schema.inputs(kind)}
    assert "aws:ec2/vpc:Vpc" in taggable
    assert taggable <= labels.TAGGED


def test_label_rule_covers_every_labelled_google_resource_of_the_program() -> None:
    found = {
        kind: name
        for kind in GcpProvider.schema.resources
        for name in ("labels", "resourceLabels")
        if name in GcpProvider.schema.inputs(kind)
    }
    assert found == {"gcp:container/cluster:Cluster": "resourceLabels"}
    assert found.items() <= labels.LABELLED.items()
