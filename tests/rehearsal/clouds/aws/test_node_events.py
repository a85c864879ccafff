"""What the fault file does to the nodes of a node group."""

from __future__ import annotations

import json


def test_a_stock_out_leaves_the_group_with_what_it_got(aws) -> None:
    aws.make_cluster()
    fault = {"fault": "stock-out", "pool": "workers", "node": 1}
    (aws.environment / "faults.json").write_text(json.dumps([fault]))
    group = aws.make_group(scalingConfig={"minSize": 3, "desiredSize": 3, "maxSize": 3})
    (issue,) = group["health"]["issues"]
    assert issue["code"] == "AsgInstanceLaunchFailures"
    assert "InsufficientInstanceCapacity" in issue["message"]
    assert len(aws.nodes()) == 1


def test_an_interrupted_instance_is_replaced_by_another(aws) -> None:
    aws.make_cluster()
    aws.make_group()
    before = aws.nodes()[0]["status"]["nodeInfo"]["bootID"]
    fault = {"fault": "spot-preemption", "pool": "workers"}
    (aws.environment / "faults.json").write_text(json.dumps([fault]))
    aws.cloud.look_around()
    assert aws.cloud.tasks.wait(120)
    (after,) = aws.nodes()
    assert after["status"]["nodeInfo"]["bootID"] != before
