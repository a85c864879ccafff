"""The files for hosts without Kubernetes: the agent's parser reads the layouts, and the playbook
that docs/how-to/bare-hosts-with-ansible.md runs calls the agent as it is.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.apis import layout
from slicewright.infra import catalog, manifests, plan, stack_file
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.node_agent import cli

ROOT = Path(__file__).resolve().parents[3]
PLAYBOOK = ROOT / "node_agent/ansible/gpu-partitions.yaml"
PAGE = ROOT / "docs/how-to/bare-hosts-with-ansible.md"


def planned(*hosts: Mapping[str, Any]) -> tuple[plan.HostPlan, ...]:
    raw = {"cloud": "byo", "hosts": list(hosts)}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, ExistingFleetPlan)
    return fleet.hosts


def s2() -> tuple[plan.HostPlan, ...]:
    fleet = plan.read_file(ROOT / "stacks/Pulumi.hosts-a100.yaml")
    assert isinstance(fleet, ExistingFleetPlan)
    return fleet.hosts


def host(model: str, *gpus: Mapping[str, Any], name: str = "h", **more: Any) -> dict[str, Any]:
    return {"name": name, "gpu": {"model": model, "count": 8}, "gpus": list(gpus), **more}


def test_s2_is_one_layout_file_and_an_inventory() -> None:  # S2-05, -11, -12
    assert manifests.host_files(s2()) == {
        "rnd3.layout": "# rnd3: 6 x A100-40. Written by slicewright plan; GPUs by NVML index, "
        "others are not touched.\n2:3g.20gb@0,3g.20gb@4\n",
        "inventory.yaml": """\
gpu_hosts:
  hosts:
    rnd3:
      slicewright_layout: rnd3.layout
      slicewright_wait_s: 0
      slicewright_gpus:
      - {index: 2, mig: true, persistence: true}
""",
    }


OF_EVERY_GPU = [
    pytest.param(model, profile, id=f"{model}-{profile}")
    for model, gpu in catalog.load().gpus.items()
    for profile in gpu.profiles
]


@pytest.mark.parametrize(("model", "profile"), OF_EVERY_GPU)
def test_the_agent_reads_every_profile_as_planned(model: str, profile: str) -> None:
    (one,) = planned(host(model, {"index": 3, "instances": [{"profile": profile}]}))
    text = manifests.host_files((one,))["h.layout"]
    read = layout.parse([text])
    assert read == manifests.host_layout(one)
    ((_, wanted),) = read.clauses
    assert [(p.profile, p.start) for p in wanted.parts] == [
        (profile, one.gpus[0].instances[0].start)
    ]


def test_mig_off_and_mig_without_partitions_are_different() -> None:
    (one,) = planned(host("H100-80", {"index": 1}, {"index": 0, "mig": False}))
    assert manifests.host_files((one,))["h.layout"].splitlines()[1:] == ["0:off", "1:empty"]


def test_waiting_and_persistence_are_in_the_inventory() -> None:
    """A layout file cannot say them."""
    made = planned(
        host("T4", {"index": 0, "mig": False}, name="a"),
        host(
            "A30",
            {"index": 0, "persistence": False, "instances": [{"profile": "2g.12gb"}]},
            name="b.example.com",
            in_use={"mode": "wait", "minutes": 1440},
        ),
    )
    hosts = yaml.safe_load(manifests.host_files(made)["inventory.yaml"])["gpu_hosts"]["hosts"]
    assert hosts == {
        "a": {
            "slicewright_layout": "a.layout",
            "slicewright_wait_s": 0,
            "slicewright_gpus": [{"index": 0, "mig": False, "persistence": True}],
        },
        "b.example.com": {
            "slicewright_layout": "b.example.com.layout",
            "slicewright_wait_s": 86400,
            "slicewright_gpus": [{"index": 0, "mig": True, "persistence": False}],
        },
    }


def test_the_same_gpus_in_another_order_give_the_same_files() -> None:
    gpus = [{"index": i, "instances": [{"profile": "1g.10gb"}]} for i in range(3)]
    assert manifests.host_files(planned(host("H100-80", *gpus))) == manifests.host_files(
        planned(host("H100-80", *reversed(gpus)))
    )


def _tasks(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        yield entry
        yield from _tasks(entry.get("block", []))


def play() -> dict[str, Any]:
    (only,) = yaml.safe_load(PLAYBOOK.read_text(encoding="utf-8"))
    return dict(only)


def command_lines() -> list[list[str]]:
    """As they are in the playbook."""
    return [
        task["ansible.builtin.command"]["argv"]
        for task in _tasks(play()["tasks"])
        if "ansible.builtin.command" in task
    ]


def test_nvidia_smi_gets_its_options_as_single_arguments() -> None:
    """An unquoted comma would end an argument in YAML. Source of the options: nvidia-smi(1)."""
    called = [line for line in command_lines() if line[0] == "nvidia-smi"]
    ((_, i, _, *read), (_, j, _, *write), (_, k, _, *reset)) = called
    assert (i, j, k) == ("-i", "-i", "-i")
    assert read == ["--query-gpu=persistence_mode", "--format=csv,noheader"]
    assert write == ["-pm", "{{ item.item.persistence | ternary(1, 0) }}"]
    assert reset == ["--gpu-reset"]


def commands() -> list[list[str]]:
    """The agent's command lines, with the written inventory's values for its variables."""
    known = yaml.safe_load(manifests.host_files(s2())["inventory.yaml"])["gpu_hosts"]["hosts"][
        "rnd3"
    ]
    known |= {"slicewright_agent": "slicewright-agent", "partitioned": "2"}

    def filled(text: str) -> str:
        return re.sub(r"\{\{ (\w+) \}\}", lambda found: str(known[found[1]]), text)

    ours = [line for line in command_lines() if "slicewright" in line[0]]
    return [[filled(str(part)) for part in line] for line in ours]


def test_every_option_that_the_playbook_gives_the_agent_exists() -> None:
    called = [line for line in commands() if line[0] == "slicewright-agent"]
    assert {line[1] for line in called} == {"verify", "apply", "show"}
    for line in called:
        cli.parser_for(line[1:]).parse_args(line[1:])


def test_the_playbook_has_only_modules_of_ansible_core_and_variables_that_are_written() -> None:
    keywords = {
        *("name", "when", "tags", "block", "register", "loop", "loop_control"),
        *("changed_when", "failed_when", "check_mode"),
    }
    tasks = list(_tasks(play()["tasks"]))
    assert all(key.startswith("ansible.builtin.") for t in tasks for key in {*t} - keywords)
    assert play()["hosts"] == "gpu_hosts"
    written = yaml.safe_load(manifests.host_files(s2())["inventory.yaml"])["gpu_hosts"]["hosts"]
    used = set(re.findall(r"slicewright_\w+", PLAYBOOK.read_text(encoding="utf-8")))
    given = {"slicewright_wheel"}  # on the command line
    assert used == {*written["rnd3"], *(v for v in play()["vars"] if "_" in v), *given}


def test_check_mode_runs_only_commands_that_read() -> None:
    """`command` is skipped under --check unless check_mode says otherwise: only what reads does."""
    reading = ("verify", "--dry-run", "--query-gpu=persistence_mode")
    for task in _tasks(play()["tasks"]):
        if task.get("check_mode") is False:
            assert any(word in task["ansible.builtin.command"]["argv"] for word in reading), task


def test_the_unit_that_the_playbook_copies_exists() -> None:
    (source,) = (
        task["ansible.builtin.copy"]["src"]
        for task in _tasks(play()["tasks"])
        if ".service" in str(task.get("ansible.builtin.copy", {}).get("src"))
    )
    assert (PLAYBOOK.parent / source).is_file()


def test_the_page_names_files_tags_and_variables_that_exist() -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    calls = [shlex.split(line, comments=True) for line in lines if "ansible-playbook" in line]
    assert len(calls) == 3
    tags = {str(task["tags"]) for task in _tasks(play()["tasks"]) if "tags" in task}
    for call in calls:
        assert (ROOT / call[-1]) == PLAYBOOK
        assert "gpu-hosts/inventory.yaml" in call
        assert {call[i + 1] for i, word in enumerate(call) if word == "--tags"} <= tags
    (connections,) = (yaml.safe_load(text) for kind, text in blocks if kind == "yaml")
    assert set(connections) == {"gpu_hosts"}
