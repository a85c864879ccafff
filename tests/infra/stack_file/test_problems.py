"""Refused stack files: file, line, key, reason and remedy of every problem, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewright.infra import plan, stack_file
from tests.properties import examples

ROOT = Path(__file__).resolve().parents[3]
GKE = """\
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
cloud: eks
cluster: {name: c, region: eu-west-1}
node_pools:
- name: a
  machine_type: p4d.24xlarge
  nodes: {count: 1}
  partition: {mode: operator, config: all-1g.5gb}
"""

BYO = """\
cloud: byo
cluster: {name: c, context: c}
fractional: {provider: hami}
node_pools:
- {name: a, gpu: {model: A100-40, count: 2}, nodes: {count: 1}, sharing: fractional}
workloads: [{name: w, gpu_share: {memory: 8Gi, compute_percent: 40, cards: 2}}]
hosts:
- {name: h, gpu: {model: A30, count: 1}, in_use: refuse, gpus: [{index: 0,
    instances: [{profile: 2g.12gb, start: 0}]}]}
"""
SHARED = EKS.replace(
    "nodes: {count: 1}",
    "nodes: {count: 1}\n  sharing: {mode: time-slicing, replicas: {mig-1g.5gb: 2}}",
)

REFUSED: list[tuple[str, str, str, tuple[str, ...]]] = [
    # fleet, text to replace, replacement, parts of the message
    (
        GKE,
        "machine_type:",
        "machin_type:",
        (
            "broken.yaml:7: node_pools[0].machin_type (pool a)",
            "did you mean machine_type?",
            "1 problem,",
        ),
    ),
    (
        GKE,
        "a3-highgpu-8g",
        "a3-highgpu-8gg",
        ("broken.yaml:7:", "not in the catalog", "did you mean a3-highgpu-8g?"),
    ),
    (GKE, "a3-highgpu-8g", "p4d.24xlarge", ("machine type of eks",)),
    (GKE, "a3-highgpu-8g", "e2-standard-4", ("has no GPU", "nearest in size with GPUs: ")),
    (
        GKE,
        "cloud: gke",
        "cloud: gcp",
        ("cloud", '"gcp" is not one of gke, eks', "did you mean gke?"),
    ),
    (GKE, "cloud: gke\n", "", ("cloud", "is missing")),
    (
        EKS,
        "machine_type: p4d.24xlarge",
        "machine_type: p4d.24xlarge\n  ami_type: BOTTLEROCKET_x86_64_NVIDIA",
        (
            "node_pools[0].partition.mode (pool a): Bottlerocket partitions GPUs itself when it "
            "boots",
            "write {mode: native, profile: …}, or another ami_type",
            "[source: bottlerocket.dev, settings.kubelet-device-plugins]",
            "1 problem,",
        ),
    ),
    (
        EKS,
        "machine_type: p4d.24xlarge",
        "machine_type: p4d.24xlarge\n  ami_type: AL2023_x86_64_NVIDA",
        ("did you mean AL2023_x86_64_NVIDIA?", "1 problem,"),
    ),
    (GKE, "location: us-central1", "location: Iowa", ("cluster.location",)),
    (GKE, "count: 1", 'count: "1"', ("nodes.count", "not an integer", "without quotes")),
    (GKE, "count: 1", "count: true", ("nodes.count", "true is not an integer")),
    (
        GKE,
        "count: 1",
        "count: 0",
        (
            "nodes.count",
            "must be at least 1 node, but is 0",
            "write 1 to 65000",
            "[source: GKE docs, quotas and limits",
        ),
    ),
    (GKE, "{count: 1}", "{min: 3, max: 1}", ("min 3 is above max 1",)),
    (GKE, "{count: 1}", "{min: 3}", ("nodes.max", "is missing")),
    (
        GKE,
        "nodes: {count: 1}",
        "node_count: 1",
        (
            "node_pools[0].node_count",
            "use nodes",
            "node_pools[0].nodes (pool a): is missing",
        ),
    ),
    (GKE, "nodes: {count: 1}", "nodes: 1", ("node_pools[0].nodes", "not a mapping")),
    (GKE, "  nodes: {count: 1}", "  nodes: {count: 1}\n  nodes: {count: 2}", ("duplicate key",)),
    (
        GKE,
        "3g.40gb",
        "4g.40gb",
        ("GKE does not partition nvidia-h100-80gb into 4g.40gb", "nearest", "[source: "),
    ),
    (GKE, "3g.40gb", "3g.20gb", ("H100-80 has no profile 3g.20gb", "nearest: 3g.40gb")),
    (GKE, "3g.40gb", "3g40gb", ("is not a MIG profile",)),
    (
        GKE,
        "mode: native, profile: 3g.40gb",
        "mode: bare, profile: 3g.40gb",
        ("bare is not supported for this pool", "under hosts"),
    ),
    (GKE, "mode: native", "mode: nativ", ("partition.mode", "did you mean native?")),
    (GKE, "mode: native, ", "", ("partition.mode", "is missing")),
    (
        GKE,
        "{mode: native, profile: 3g.40gb}",
        "natve",
        ("node_pools[0].partition (pool a)", "did you mean native?"),
    ),
    (
        GKE,
        "  zones: [us-central1-c]\n",
        "",
        ("node_pools[0].zones", "is required", "[us-central1-a]"),
    ),
    (GKE, "[us-central1-c]", "[us-east1-c]", ("us-east1-c is not a zone of us-central1",)),
    (GKE, "[us-central1-c]", "us-central1-c", ("zones", "not a list")),
    (
        GKE,
        "[us-central1-c]",
        "[us-central1-a, us-central1-c]",
        ("1 node cannot be divided evenly among 2 zones",),
    ),
    (GKE, "name: a", "name: A_1", ("is not a valid name",)),
    (GKE, "name: a", f"name: {'a' * 41}", ("at most 40 lowercase",)),
    (GKE, "name: a", "name: system", ("name of the system pool",)),
    (GKE, "  nodes:", "  driver: latest\n  nodes:", ("did you mean LATEST?",)),
    (
        GKE,
        "  nodes:",
        "  driver: LATEST\n  image_type: UBUNTU_CONTAINERD\n  nodes:",
        ("LATEST on COS only",),
    ),
    (
        GKE,
        "  nodes:",
        "  capacity: spott\n  nodes:",
        ("node_pools[0].capacity", "did you mean spot?"),
    ),
    (GKE, "  nodes:", "  spot: true\n  nodes:", ("use capacity: spot",)),
    (
        GKE,
        "  nodes:",
        "  local_ssd: {ephemeral: 2}\n  nodes:",
        ("has 16 local SSDs, not 2", "{ephemeral: 16}"),
    ),
    (GKE, "  nodes:", "  max_pods_per_node: 16\n  nodes:", ("too few for 16 partitions",)),
    (GKE, "  nodes:", "  gpu: {model: T4, count: 1}\n  nodes:", ("has fixed GPUs",)),
    (
        GKE,
        "  nodes:",
        "  labels: {nvidia.com/mig.config: x}\n  nodes:",
        ("races with the device plugin", "use partition"),
    ),
    (
        GKE,
        "  nodes:",
        "  labels: {slicewright.io/pool: x}\n  nodes:",
        ("reserved for slicewright",),
    ),
    (
        GKE,
        "  nodes:",
        "  labels: {x: true}\n  nodes:",
        ("not a string", 'write it in quotes: "true"'),
    ),
    (
        GKE,
        "  nodes:",
        "  labels: {a b: c}\n  nodes:",
        ('labels."a b"', "not a valid Kubernetes key"),
    ),
    (
        GKE,
        "  nodes:",
        "  taints: [{key: k, effect: NoSchedul}]\n  nodes:",
        ("taints[0].effect", "did you mean NoSchedule?"),
    ),
    (
        GKE,
        "  nodes:",
        "  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]\n  nodes:",
        ("GKE adds it",),
    ),
    (
        GKE,
        "  nodes:",
        "  taints: [{key: k, effect: NoSchedule}, {key: k, effect: NO_SCHEDULE}]\n  nodes:",
        ("is listed twice",),
    ),
    (GKE, "cloud: gke", "cloud: gke\ngpu_operator: {}", ("no pool uses it",)),
    (GKE, "cloud: gke", "cloud: gke\nsystem_pool: {machine_type: a2-highgpu-1g}", ("has GPUs",)),
    (GKE, "cloud: gke", "cloud: gke\nverify_timeout_minutes: 0", ("verify_timeout_minutes",)),
    (
        GKE,
        "cloud: gke",
        "cloud: gke\nverfy_timeout_minutes: 9",
        ("did you mean verify_timeout_minutes?",),
    ),
    (GKE, GKE[GKE.index("- name") :], "  []\n", ("node_pools", "must not be empty")),
    (EKS, "all-1g.5gb", "all-1g.6gb", ("is not a layout of A100-40", "did you mean all-1g.5gb?")),
    (EKS, "all-1g.5gb", "all-enabled", ("write all-disabled, or partition: none",)),
    (
        EKS,
        "config: all-1g.5gb",
        "layout: {3g.20gb: 2, 1g.5gb: 1}",
        ("9 of 8 memory slots", "{1g.5gb: 1, 2g.10gb: 1, 3g.20gb: 1}"),
    ),
    (EKS, "config: all-1g.5gb", "layout: {4g.20gb: 2}", ("8 of 7 compute slices",)),
    (EKS, "config: all-1g.5gb", "layout: {9g.5gb: 7}", ("no profile 9g.5gb",)),
    # Absurd numbers are refused at once, not counted one by one.
    (EKS, "config: all-1g.5gb", "layout: {1c.3g.20gb: 99999999999}", ("does not fit", "nearest")),
    (EKS, "config: all-1g.5gb", "layout: {1g.5gb: 99999999999}", ("does not fit", "nearest")),
    (EKS, "count: 1", "count: 99999999999", ("65000",)),
    (EKS, "config: all-1g.5gb", "layout: {1g.5gb: 0}", ('partition.layout."1g.5gb"',)),
    (
        EKS,
        "config: all-1g.5gb",
        "layout: {1g.5gb: 7}, config: all-1g.5gb",
        ("has layout and config",),
    ),
    (EKS, ", config: all-1g.5gb", "", ("has none of layout, config and gpus",)),
    (
        EKS,
        "mode: operator, config: all-1g.5gb",
        "mode: native, profile: 1g.5gb",
        ("EKS's Amazon Linux does not partition GPUs itself", "write mode: operator"),
    ),
    (EKS, "p4d.24xlarge", "g4dn.xlarge", ("T4 has no MIG", "write partition: none")),
    (EKS, "machine_type", "instance_type", ("did you mean machine_type?", "1 problem,")),
    (EKS, "region: eu-west-1", "region: eu-west-1, zones: [eu-west-1a]", ("at least two zones",)),
    (
        EKS,
        "cloud: eks",
        "cloud: eks\ngpu_operator: {driver: {enabled: true}}",
        ("NVIDIA publishes no container with one for Amazon Linux", "write false"),
    ),
    (
        EKS,
        "cloud: eks",
        "cloud: eks\ngpu_operator: {mig_manager: {default_config: all-balanced}}",
        ("default_config", "all-disabled"),
    ),
    (
        EKS,
        "all-1g.5gb}",
        "all-balanced}\ngpu_operator: {mig_strategy: single}",
        ("more than one profile", "mig_strategy: mixed"),
    ),
    (
        EKS,
        "  nodes:",
        "  labels: {node.kubernetes.io/x: y}\n  nodes:",
        ("EKS refuses labels with a kubernetes.io",),
    ),
    (EKS, "  nodes:", '  labels: {x: ""}\n  nodes:', ("EKS refuses labels without a value",)),
    (
        EKS,
        "  nodes:",
        f"  taints: [{{key: example.com/{'k' * 60}, effect: NoSchedule}}]\n  nodes:",
        ("EKS allows 63 characters",),
    ),
    (EKS, "name: a", f"name: {'a' * 55}", ("at most 54 lowercase",)),
]


@pytest.mark.parametrize(
    ("fleet", "old", "new", "message_parts"),
    REFUSED,
    ids=[f"{new.strip()[:60]!r} for {old[:20]!r}" for _, old, new, _ in REFUSED],
)
def test_a_mistake_is_refused_with_its_path_and_remedy(
    broken: Callable[[str], str], fleet: str, old: str, new: str, message_parts: tuple[str, ...]
) -> None:
    assert old in fleet
    message = broken(fleet.replace(old, new, 1))
    assert message.startswith("stacks/Pulumi.broken.yaml: ")
    for part in message_parts:
        assert part in message, message


@pytest.mark.parametrize("fleet", [GKE, EKS, BYO, SHARED], ids=["gke", "eks", "byo", "shared"])
def test_the_correct_fleets_are_accepted(tmp_path: Path, fleet: str) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(
        "config:\n  slicewright:fleet:\n" + "".join(f"    {line}\n" for line in fleet.splitlines())
    )
    assert plan.read_file(file).pools[0].name == "a"


def test_every_problem_is_shown_at_once_with_its_line(broken: Callable[[str], str]) -> None:
    message = broken(
        "cloud: eks\n"
        "cluster: {name: c, region: eu-west-1}\n"
        "node_pools:\n"
        "- {name: a, machine_type: p4d.24xlarg, nodes: {count: 1}}\n"  # refused by the plan
        "- {name: b, machine_type: p4d.24xlarge, nodes: {cont: 1}}\n"  # refused by the schema
        "- {name: c, machine_type: p4d.24xlarge, nodes: {count: 1}, partition: {mode: "
        "operator, layout: {4g.20gb: 2}}}\n"
        "verify_timeout_minutes: 0\n"
    )
    lines = message.splitlines()
    assert lines[0] == "stacks/Pulumi.broken.yaml: 4 problems, nothing was created or changed"
    assert [line.split(" ")[2] for line in lines[1:]] == [
        f"stacks/Pulumi.broken.yaml:{n}:" for n in (6, 7, 8, 9)
    ]
    assert "node_pools[2].partition.layout (pool c)" in lines[3]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty; it must have the key slicewright:fleet under config"),
        ("config: {}", "has no key"),
        ("config:\n  slicewright:fleet: [", ":2: is not valid YAML"),
        ("config:\n  slicewright:fleet: 7", "slicewright:fleet: is the number 7, not a mapping"),
        ("config:\n  slicewright:fleet:", "slicewright:fleet: is empty, not a mapping"),
        ("\x00", "is not valid YAML"),
        ("a: &a [*a]", "has no key"),
        (
            "config:\n  slicewright:fleet: &a\n    cloud: *a",
            ":3:5: cloud: the alias is part of the value that it refers to",
        ),
    ],
)
def test_a_file_without_a_fleet_is_one_problem(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(text)
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read_file(file, name="stacks/Pulumi.x.yaml")
    assert reason in str(refused.value)


def test_a_missing_file_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        stack_file.SpecError, match=r"Pulumi\.none\.yaml: cannot be read: No such file"
    ):
        stack_file.parse_file(tmp_path / "Pulumi.none.yaml")


_ANY_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(
        [
            "gke",
            "eks",
            "byo",
            "native",
            "operator",
            "spot",
            "mps",
            "3g.40gb",
            "a3-highgpu-8g",
            "A100-40",
            "8Gi",
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_value_at_any_path_is_planned_or_refused(data: st.DataObject) -> None:
    """A random value replaces one value of a correct fleet."""
    raw = yaml.safe_load(data.draw(st.sampled_from([GKE, EKS, BYO, SHARED])))
    at = raw
    while True:
        key = data.draw(st.sampled_from(list(at) if isinstance(at, dict) else list(range(len(at)))))
        if isinstance(at[key], dict | list) and at[key] and data.draw(st.booleans()):
            at = at[key]
            continue
        at[key] = data.draw(_ANY_VALUE)
        break
    try:
        plan.read(json.dumps(raw), stack_file.Source("stack x", raw))
    except stack_file.SpecError as e:
        refusal = str(e)
    else:
        return
    assert refusal.startswith("stack x: ")
    assert "problem" in refusal


def test_both_spellings_of_a_taint_effect_are_equal(tmp_path: Path) -> None:
    plans = []
    for effect in ("NoSchedule", "NO_SCHEDULE"):
        raw = GKE.replace(
            "  nodes:", f"  taints: [{{key: k, value: v, effect: {effect}}}]\n  nodes:"
        )
        plans.append(plan.read(json.dumps(yaml.safe_load(raw)), stack_file.Source("x")))
    assert plans[0].pools[0].taints == plans[1].pools[0].taints
    assert plans[0].pools[0].taints[0].cloud_effect == "NO_SCHEDULE"


def test_words_that_yaml_1_1_reads_as_booleans_are_strings(tmp_path: Path) -> None:
    """As in the Pulumi engine, `value: on` is the string "on"."""
    file = tmp_path / "Pulumi.x.yaml"
    fleet = GKE.replace("  nodes:", "  taints: [{key: k, value: on, effect: NoSchedule}]\n  nodes:")
    file.write_text(
        "config:\n  slicewright:fleet:\n" + "".join(f"    {line}\n" for line in fleet.splitlines())
    )
    assert plan.read_file(file).pools[0].taints[0].value == "on"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("!!int 5", "the YAML tag !!int is not supported"),
        ("!!int ''", "the YAML tag !!int is not supported"),
        ("!!float ''", "the YAML tag !!float is not supported"),
        ("!!bool maybe", "the YAML tag !!bool is not supported"),
        ("!!null x", "the YAML tag !!null is not supported"),
        ("!!set {a}", "the YAML tag !!set is not supported"),
        ("!own [1]", "the YAML tag !own is not supported"),
        ("!!timestamp no", "the YAML tag !!timestamp is not supported"),
        ("!!timestamp 2026-01-01", "the YAML tag !!timestamp is not supported"),
        ("!!binary aGk=", "the YAML tag !!binary is not supported"),
        ("!own 1", "the YAML tag !own is not supported"),
    ],
)
def test_a_value_with_a_yaml_tag_is_refused(
    broken: Callable[[str], str], value: str, reason: str
) -> None:
    message = broken(GKE + f"verify_timeout_minutes: {value}\n")
    assert "1 problem," in message
    assert f"broken.yaml:11: verify_timeout_minutes: {reason}" in message
    assert "; write the value without a tag" in message


@pytest.mark.parametrize(
    "image", ["python 3.13", "Python:3.13", "python:", "python@sha256:12", "http://x/python", "-x"]
)
def test_an_image_that_is_not_a_reference_is_refused(
    broken: Callable[[str], str], image: str
) -> None:
    message = broken(GKE + f"image: {json.dumps(image)}\n")
    assert f"image: {json.dumps(image)} is not a container image reference" in message


@pytest.mark.parametrize(
    "image",
    [
        "python",
        "python:3.13",
        "localhost:5000/a/b_c/d--e.f:v1.2-x",
        "europe-docker.pkg.dev/p/r/python@sha256:" + "0" * 64,
        "registry.example.com/python:3.13-slim@sha256:" + "a" * 64,
    ],
)
def test_an_image_reference_is_accepted(image: str) -> None:
    raw = yaml.safe_load(GKE) | {"image": image}
    assert plan.read(json.dumps(raw), stack_file.Source("x", raw)).image == image


def test_an_image_that_yaml_reads_as_a_number_is_refused(broken: Callable[[str], str]) -> None:
    assert "image: 3.13 is not a string" in broken(GKE + "image: 3.13\n")
