"""Common mistakes, such as keys of other tools, tabs and wrong quotes, each with its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from slicewright import cli
from slicewright.infra import plan
from tests.infra.conftest import without_columns

GKE = """\
config:
  slicewright:fleet:
    cloud: gke
    cluster: {name: main, location: us-central1}
    node_pools:
      - name: a
        machine_type: a3-highgpu-8g
        zones: [us-central1-c]
        nodes: {count: 1}
        partition: {mode: native, profile: 3g.40gb}
"""
EKS = """\
config:
  slicewright:fleet:
    cloud: eks
    cluster: {name: c, region: eu-west-1}
    node_pools:
      - name: a
        machine_type: p4d.24xlarge
        nodes: {count: 1}
        partition: {mode: operator, config: all-1g.5gb}
"""
POOL = "        nodes: {count: 1}\n"


@dataclass(frozen=True)
class Mistake:
    text: str
    message: tuple[str, ...]
    """Parts of the message in order; one per problem starts with `:LINE`."""


def eks(old: str, new: str, *message: str) -> Mistake:
    assert old in EKS
    return Mistake(EKS.replace(old, new, 1), message)


def gke(old: str, new: str, *message: str) -> Mistake:
    assert old in GKE
    return Mistake(GKE.replace(old, new, 1), message)


def in_pool(lines: str, *message: str) -> Mistake:
    """One more line in an EKS pool, which is line 8."""
    return eks(POOL, f"        {lines}\n{POOL}", *message)


MISTAKES: Mapping[str, Mistake] = {
    "Terraform itself": Mistake(
        'resource "google_container_node_pool" "a" {\n  node_count = 1\n}\n',
        (":1: is a string, not a mapping",),
    ),
    "Terraform's words": gke(
        POOL,
        "        initial_node_count: 1\n        node_config: {machine_type: a3-highgpu-8g, "
        "disk_size_gb: 100}\n",
        ":6: node_pools[0].nodes (pool a): is missing; write nodes: {count: 1}",
        ":9: node_pools[0].initial_node_count (pool a): unknown key; use nodes: {count: …}",
        ":10: node_pools[0].node_config (pool a): unknown key; write its keys "
        "(machine_type) one level up",
    ),
    "eksctl's words": eks(
        "machine_type: p4d.24xlarge",
        "instanceType: p4d.24xlarge\n        desiredCapacity: 2",
        ":7: node_pools[0].instanceType (pool a): unknown key; did you mean machine_type?",
        ":8: node_pools[0].desiredCapacity (pool a): unknown key; use nodes: {count: …}",
    ),
    "a Kubernetes manifest": Mistake("apiVersion: v1\nkind: ConfigMap\n", (": has no key config",)),
    "a fleet without config": Mistake(
        "slicewright:fleet:\n  cloud: eks\n", (": has no key config",)
    ),
    "a nested namespace": Mistake(
        "config:\n  slicewright: {fleet: {}}\n",
        (": has no key slicewright:fleet under config",),
    ),
    "a tab": eks(
        "        nodes",
        "\tnodes",
        ":8: is not valid YAML: found a tab character",
        "indent with spaces",
    ),
    "a key twice": in_pool(
        "nodes: {count: 2}",
        ":9: node_pools[0].nodes (pool a): duplicate key; remove one: the other is on line 8",
    ),
    "config twice": Mistake(
        EKS + EKS, (":10: duplicate key config; remove one: the other is on line 1",)
    ),
    "yes and off": gke(
        POOL,
        f"        management: {{auto_repair: yes, auto_upgrade: off}}\n{POOL}",
        '.auto_repair (pool a): "yes" is not true or false; write true',
        '.auto_upgrade (pool a): "off" is not true or false; write false',
        ".auto_upgrade (pool a): GKE upgrades the nodes of every cluster in a release channel",
    ),
    "octal": eks(
        "count: 1",
        "count: 010",
        ":8: node_pools[0].nodes.count (pool a): 010 is ambiguous: YAML 1.1",
        'write 10, or "010" in quotes',
    ),
    "no octal": eks(
        "count: 1",
        "count: 09",
        ":8: node_pools[0].nodes.count (pool a): 09 is ambiguous: YAML 1.1",
        "write 9, or",
    ),
    "octal without end": eks(
        "count: 1", "count: 0" + "9" * 5000, ":8: node_pools[0].nodes.count (pool a): 0999"
    ),
    "another region for the zones": eks(
        "region: eu-west-1",
        "region: us-east-1, zones: [eu-west-1a, eu-west-1b]",
        ":4: cluster.zones[0]: eu-west-1a is not a zone of us-east-1, where the cluster is; "
        "for example us-east-1a",
        ":4: cluster.zones[1]: eu-west-1b is not a zone of us-east-1",
    ),
    "a quoted number": eks(
        "count: 1",
        'count: "3"',
        ':8: node_pools[0].nodes.count (pool a): "3" is not an integer; write it without quotes: 3',
    ),
    "a float": eks(
        "count: 1",
        "count: 2.5",
        ":8: node_pools[0].nodes.count (pool a): 2.5 is not an integer; write 1 to 65000",
    ),
    "1_000": eks("count: 1", "count: 1_000", "1_000 is the number 1000 in YAML 1.1; write 1000"),
    "hexadecimal": eks("count: 1", "count: 0x10", "0x10 is the number 16 in YAML 1.1; write 16"),
    "a date": eks("name: a", "name: 2026-12-31", "2026-12-31 is a timestamp in YAML 1.1"),
    "a version as a key": eks(
        POOL,
        f"        labels: {{1.30: x}}\n{POOL}",
        ':8: node_pools[0].labels."1.30" (pool a): the key is not a string in YAML; write',
    ),
    "a merge twice": eks(
        "cloud: eks",
        "<<: {cloud: eks}\n    <<: {cloud: gke}\n    cloud: eks",
        ':4: "<<": duplicate key; remove one: the other is on line 3',
    ),
    "merges in a circle": eks(
        "cloud: eks",
        "<<: &a {<<: *a}\n    cloud: eks",
        ":3:",
        "merges itself (<<); write the keys",
    ),
    "a negative number": eks(
        "count: 1",
        "count: -1",
        "must be at least 1 node, but is -1; write 1 to 65000",
        "[source: GKE docs, quotas and limits",
    ),
    "a count alone": eks("{count: 1}", "3", "3 is not a mapping; write {count: 3}"),
    "a size with its unit": in_pool(
        "disk: {size_gb: 200GB}",
        ':8: node_pools[0].disk.size_gb (pool a): "200GB" is not an integer; write it '
        "without a unit: 200",
    ),
    "a size alone": in_pool(
        "disk: 200",
        ":8: node_pools[0].disk (pool a): 200 is not a mapping; write {size_gb: 200}",
    ),
    "an absurd size": in_pool(
        "disk: {size_gb: 99999999}",
        "must be at most 65536 GB, but is 99999999: EBS has no larger volumes; "
        "write 20 to 65536 [source: EKS API",
    ),
    "a version without quotes": eks(
        "region:",
        "version: 1.30, region:",
        ":4: cluster.version: 1.3",
        'write it in quotes: "1.30"',
        ":4: cluster.version: extended support of Kubernetes 1.30 ended on 2026-07-23: ",
    ),
    "an alias of nothing": in_pool(
        "labels: *nobody", ":8: is not valid YAML: found undefined alias; define it with &"
    ),
    "CRLF": Mistake(
        EKS.replace("count: 1", "count: x").replace("\n", "\r\n"),
        (":8: node_pools[0].nodes.count (pool a): ",),
    ),
    "CR": Mistake(
        EKS.replace("count: 1", "count: x").replace("\n", "\r"),
        (":8: node_pools[0].nodes.count (pool a): ",),
    ),
    "one space too few": eks(
        "        nodes",
        "       nodes",
        ":8: is not valid YAML: ",
        "check that this line is indented like its neighbors",
    ),
    "no dash": eks(
        "      - name",
        "        name",
        ":6: node_pools: ",
        "is not a list; write it as a list: '- ' before its first key",
    ),
    "no colon": eks(
        "cloud: eks",
        "cloud eks",
        ":4: is not valid YAML: mapping values are not allowed",
        "check that the line before has ': '",
    ),
    "no space after the colon": eks(
        "cloud: eks",
        "cloud:eks",
        ":4: is not valid YAML: mapping values",
        "check that the line before has ': '",
    ),
    "an open bracket": eks(
        "{count: 1}", "{count: 1", ":9: is not valid YAML: ", "close every quote and bracket"
    ),
    "an open quote": eks(
        "name: a", 'name: "a', ": is not valid YAML: ", "close every quote and bracket"
    ),
    "a variable": eks(
        "count: 1",
        "count: ${NODES}",
        ":8: is not valid YAML: ",
        "variables and templates are not expanded",
    ),
    "a template": eks(
        "count: 1",
        "count: {{ .Values.nodes }}",
        ":8: a key must be a string",
        "variables and templates are not expanded",
    ),
    "two documents": Mistake(
        EKS + "---\n" + EKS,
        (":10: is not valid YAML: but found another document; remove the '---'",),
    ),
    "a list of keys": Mistake(
        "config:\n  slicewright:fleet:\n    - cloud: eks\n    - cluster: {name: c}\n",
        (
            ":3: slicewright:fleet: is a list of 2 items, not a mapping; "
            "write the keys cloud, cluster",
        ),
    ),
    "a secret fleet": Mistake(
        "config:\n  slicewright:fleet:\n    secure: AAAB\n",
        (":3: slicewright:fleet: is an encrypted secret", "not with `config set --secret`"),
    ),
    "a secret name": eks(
        "name: c,",
        "name: {secure: AAAB},",
        ":4: cluster.name: is an encrypted secret",
        "--plaintext`",
    ),
    "a secret tag": in_pool(
        "tags: {team: {secure: AAAB}}",
        ":8: node_pools[0].tags.team (pool a): is an encrypted secret",
    ),
    "a secret that would be two good labels": in_pool(
        "tags: {secure: AAAB}", ":8: node_pools[0].tags (pool a): is an encrypted secret"
    ),
    "a zone for zones": gke(
        "[us-central1-c]",
        "us-central1-c",
        ':8: node_pools[0].zones (pool a): "us-central1-c" is not a list; write it as a list: '
        "[us-central1-c]",
    ),
    "a region mistyped": gke(
        "location: us-central1",
        "location: us-centrall1",
        ":4: cluster.location: us-centrall1 is not a region that Google Cloud had on ",
        "did you mean us-central1?",
    ),
    "another zone for the cluster": gke(
        "location: us-central1",
        "location: us-east1-b",
        ":8: node_pools[0].zones[0] (pool a): us-central1-c is not a zone of us-east1",
    ),
    "a region by its city": eks(
        "eu-west-1",
        "Ireland",
        ':4: cluster.region: "Ireland" is not an AWS region; write it like eu-west-1',
    ),
    "an A100's layout on an H100": eks(
        "p4d.24xlarge",
        "p5.48xlarge",
        ":7: node_pools[0].machine_type (pool a): p5.48xlarge is not offered in eu-west-1; regions "
        "that have it: ap-northeast-1, ",
        ":9: node_pools[0].partition.config (pool a): all-1g.5gb is not a layout of H100-80; "
        "did you mean all-1g.10gb?",
    ),
    "the same with media": Mistake(
        EKS.replace("p4d.24xlarge", "p5.48xlarge")
        .replace("all-1g.5gb", "all-1g.5gb.me")
        .replace("eu-west-1", "us-west-2"),
        ("did you mean all-1g.10gb.me?",),
    ),
    "two things in a layout": eks(
        "config: all-1g.5gb",
        "layout: {9g.5gb: 7, 4g.20gb: 2}",
        "A100-40 has no profile 9g.5gb",
        "the other profiles do not fit either: 4g.20gb x2: at most 1 fit on one GPU; 8 of 7",
    ),
    "kubectl's taint": in_pool(
        'taints: ["team=a:NoSchedule"]',
        ":8: node_pools[0].taints[0] (pool a): ",
        "{key: team, effect: NoSchedule}",
    ),
    "labels as a list": in_pool(
        "labels: [role=gpu]", ":8: node_pools[0].labels (pool a): ", "for example {team: h100}"
    ),
    "a label that is a mapping": in_pool(
        "labels: {team: {name: x}}", ":8: node_pools[0].labels.team (pool a): ", "write a string"
    ),
    "a space behind": eks(
        "p4d.24xlarge",
        '"p4d.24xlarge "',
        ":7: node_pools[0].machine_type (pool a): ",
        "starts or ends with a space",
    ),
    "typographic quotes": eks(
        "name: a", "name: “a”", ":6: node_pools[0].name (pool “a”): ", "for example a "
    ),
    "capitals": eks(
        "cloud: eks",
        "cloud: EKS",
        ':3: cloud: "EKS" is not one of gke, eks, byo; did you mean eks?',
    ),
    "a key in capitals": eks(
        "cloud: eks", "Cloud: eks", ":3: Cloud: unknown key; did you mean cloud?"
    ),
    "a pool of nothing": Mistake(
        EKS + "      -\n",
        (":10: node_pools[1]: null is not a mapping; leave the item out, or",),
    ),
    "a key of nothing": eks(
        "nodes: {count: 1}",
        "nodes:",
        ":8: node_pools[0].nodes (pool a): null is not a mapping",
        "for example {count: 1}",
    ),
    "a merge of nothing": eks(
        "cloud: eks",
        "<<: 7\n    cloud: eks",
        ":3: the value of << must be an alias",
    ),
    "a mistake in a merged mapping": Mistake(
        EKS.replace("- name: a", "- &base\n        name: a").replace("count", "cont")
        + "      - {<<: *base, name: b}\n",
        (
            ":9: node_pools[0].nodes.cont (pool a): unknown key; did you mean count?",
            ":9: node_pools[1].nodes.cont (pool b): unknown",
        ),
    ),
    "three at once": Mistake(
        EKS.replace("count: 1", "count: 70000")
        .replace("name: a", "name: My_Pool")
        .replace("eu-west-1", "Ireland"),
        (
            ":4: cluster.region: ",
            ":6: node_pools[0].name (pool My_Pool): ",
            ":8: node_pools[0].nodes.count (pool My_Pool): must be at most 65000 nodes, but is",
        ),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_common_mistake_is_reported_on_its_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mistake, file = MISTAKES[name], tmp_path / "Pulumi.x.yaml"
    file.write_bytes(mistake.text.encode())
    assert cli.main(["check", str(file)]) == cli.BAD_INPUT
    out = without_columns(capsys.readouterr().out)
    assert "Traceback" not in out
    at = 0
    for part in mistake.message:
        at = out.find(part, at)
        assert at >= 0, f"{part!r} is missing or out of order:\n{out}"
    # No other problem is reported.
    named = [part for part in mistake.message if part.startswith((":", "."))]
    headed = out.splitlines()[0].endswith("nothing was created or changed")
    assert len(out.splitlines()) == headed + max(1, len(named)), out


def test_own_keys_override_merged_ones(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(
        EKS.replace("- name: a", "- &base\n        name: a")
        + "      - {<<: *base, name: b, nodes: {count: 2}}\n"
    )
    assert [(pool.name, pool.nodes.max) for pool in plan.read_file(file).pools] == [
        ("a", 1),
        ("b", 2),
    ]
