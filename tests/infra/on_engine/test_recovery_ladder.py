"""Each block of commands of docs/how-to/state-and-recovery.md, on a state that is wrong in its way.

The commands are read from the page, so that the page is what is tested.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.exit_codes import NOT_VERIFIED, VERIFIED
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import plugins_and_commands
from tests.infra.cloud_engine import PROJECT, CloudEngine, Ran, cloud_engine

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "state-and-recovery.md"
FLEET: Mapping[str, Any] = {
    "cloud": "gke",
    "cluster": {"name": "main", "location": "us-central1"},
    "node_pools": [
        {
            "name": "one",
            "machine_type": "a2-highgpu-1g",
            "zones": ["us-central1-c"],
            "nodes": {"count": 1},
            "partition": {"mode": "native", "profile": "1g.5gb"},
        }
    ],
}
CLUSTER = f"projects/{PROJECT}/locations/us-central1/clusters/main"
POOL = f"{CLUSTER}/nodePools/one"


def ladder() -> Mapping[int, str]:
    """Step -> its commands."""
    section = PAGE.read_text().partition("## Recovery steps")[2].partition("\n## ")[0]
    steps = re.split(r"^(\d)\. ", section, flags=re.MULTILINE)
    blocks = {
        int(number): re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        for number, text in zip(steps[1::2], steps[2::2], strict=True)
    }
    for found in blocks.values():
        assert len(found) <= 1, "a step has one block"
    return {
        number: re.sub(r"^ +", "", found[0], flags=re.MULTILINE)
        for number, found in blocks.items()
        if found
    }


@dataclass(frozen=True)
class Stack:
    """`prod` of the project `slicewright`, brought up."""

    engine: CloudEngine
    state: Path
    inventory: Mapping[str, list[str]]

    def run(self, commands: str, **variables: str) -> Ran:
        done = subprocess.run(
            ["sh", "-eu", "-c", commands],
            cwd=self.engine.directory,
            env={**self.engine.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=400,
        )
        return Ran(done.returncode, done.stdout)

    def follow(self, step: int, **variables: str) -> str:
        """Runs a step of the page, to a good end."""
        ran = self.run(ladder()[step], **variables)
        assert ran.code == 0, ran.output
        return ran.output

    def is_as_it_was(self) -> None:
        assert self.there() == self.inventory
        ran = self.run("pulumi preview --stack prod --refresh --expect-no-changes")
        assert ran.code == 0, ran.output

    def there(self) -> Mapping[str, list[str]]:
        found = self.engine.cloud.inventory()
        return {kind: sorted(names) for kind, names in sorted(found.items())}

    def fails(self) -> str:
        ran = self.run("pulumi preview --stack prod --expect-no-changes")
        assert ran.code != 0, ran.output
        return ran.output

    def edit(self, change: Callable[[dict[str, Any]], None], *flags: str) -> None:
        """Of the exported state."""
        text = self.run("pulumi stack export --stack prod").output
        exported = json.loads(text)
        change(exported["deployment"])
        (self.engine.directory / "edited.json").write_text(json.dumps(exported))
        ran = self.run(f"pulumi stack import --stack prod --file edited.json {' '.join(flags)}")
        assert ran.code == 0, ran.output

    def urns(self) -> list[str]:
        text = self.run("pulumi stack export --stack prod").output
        return [one["urn"] for one in json.loads(text)["deployment"].get("resources") or ()]

    def urn(self, name: str) -> str:
        (found,) = (urn for urn in self.urns() if urn.endswith(f"::{name}"))
        return found

    def pool_is_deleted_in_the_cloud(self) -> None:
        self.engine.cloud.call(
            "container", "projects.locations.clusters.nodePools.delete", {"name": POOL}, {}
        )
        assert self.engine.cloud.tasks.wait(120)
        assert self.there() != self.inventory


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Stack]:
    root = tmp_path_factory.mktemp("ladder")
    with cloud_engine(root, toolchain) as engine:
        (root / "bin").mkdir()
        plugins_and_commands.install(root, toolchain)
        path = f"{root / 'bin'}:{engine.variables['PATH']}"
        engine = replace(engine, variables={**engine.variables, "PATH": path})
        (engine.directory / "Pulumi.yaml").write_text(
            "name: slicewright\nruntime: python\nstackConfigDir: stacks\n"
        )
        (engine.directory / "stacks").mkdir()
        config = {"gcp:project": PROJECT, "slicewright:fleet": FLEET}
        (engine.directory / "stacks" / "Pulumi.prod.yaml").write_text(
            yaml.safe_dump({"config": json.loads(json.dumps(config))})
        )
        engine.write(FLEET)
        made = Stack(engine, root / "state", {})
        for commands in ("pulumi stack init prod", "pulumi up --stack prod --yes --skip-preview"):
            ran = made.run(commands)
            assert ran.code == 0, ran.output
        yield replace(made, inventory=made.there())


def test_each_step_with_commands_is_tried_here() -> None:
    tried = {int(n) for n in re.findall(r"\.follow\((\d)", Path(__file__).read_text())}
    assert tried == ladder().keys() == set(range(3, 10))


def test_attributes_that_a_kill_cut_off_no_longer_hide_a_state_that_is_whole(stack: Stack) -> None:
    file = stack.state / ".pulumi" / "stacks" / "slicewright" / "prod.json.attrs"
    assert json.loads(file.read_text())
    file.write_text("")
    assert "EOF" in stack.fails()
    unlock = f"'{sys.executable}' -m slicewright.cli unlock --stack prod"
    seen = stack.run(f"{unlock} --dry-run")
    assert seen.code == NOT_VERIFIED, seen.output
    assert file.exists()
    mended = stack.run(unlock)
    assert mended.code == VERIFIED, mended.output
    stack.is_as_it_was()


def test_manual_changes_are_reverted(stack: Stack) -> None:
    stack.pool_is_deleted_in_the_cloud()
    stack.follow(3)
    stack.is_as_it_was()


def test_a_pool_that_is_not_in_the_state_is_taken_over(stack: Stack) -> None:
    stack.edit(
        lambda state: state.update(
            resources=[one for one in state["resources"] if one.get("id") != POOL]
        )
    )
    assert not any("NodePool::" in urn and urn.endswith("-one") for urn in stack.urns())
    stack.follow(4)
    stack.is_as_it_was()


def test_resources_removed_from_the_state_stay_in_the_cloud(stack: Stack) -> None:
    urn = stack.urn("gke-one")

    def protect(state: dict[str, Any]) -> None:
        for one in state["resources"]:
            one["protect"] = one["urn"] == urn

    stack.edit(protect)
    refused = stack.run(f"pulumi state delete '{urn}' --stack prod --yes")
    assert refused.code != 0, "it is protected: the test would show nothing"
    stack.follow(5, URN=urn)
    assert urn not in stack.urns()
    assert stack.there() == stack.inventory
    stack.follow(4)
    stack.is_as_it_was()


def test_a_state_in_a_wrong_order_is_repaired(stack: Stack) -> None:
    def shuffle(state: dict[str, Any]) -> None:
        state["resources"].reverse()

    stack.edit(shuffle, "--force")
    assert stack.fails()
    stack.follow(6)
    stack.is_as_it_was()


def test_a_state_is_edited_by_hand(stack: Stack) -> None:
    """A vanished resource that no refresh can be asked about is taken out."""
    before = stack.urns()

    def invent(state: dict[str, Any]) -> None:
        pool = next(one for one in state["resources"] if one.get("id") == POOL)
        state["resources"].append({**pool, "urn": f"{pool['urn']}-gone", "id": f"{POOL}-gone"})

    stack.edit(invent)
    assert stack.urns() != before
    editor = stack.engine.directory / "editor"
    editor.write_text(
        "#!/usr/bin/env python3\n"
        "import json, pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "whole = json.loads(file.read_text())\n"
        "state = whole['deployment']\n"
        "state['resources'] = [r for r in state['resources'] if not r['urn'].endswith('-gone')]\n"
        "file.write_text(json.dumps(whole))\n"
    )
    editor.chmod(0o755)
    stack.follow(7, EDITOR=str(editor))
    assert stack.urns() == before
    stack.is_as_it_was()


@pytest.mark.parametrize("text", ["", '{"version": 3, "checkpoint": {"latest": {"resou'])
def test_a_state_that_cannot_be_read_is_the_version_before_it(stack: Stack, text: str) -> None:
    file = stack.state / ".pulumi" / "stacks" / "slicewright" / "prod.json"
    file.write_text(text)
    stack.fails()
    stack.follow(8, STATE=str(stack.state))
    stack.is_as_it_was()


def test_the_backups_that_the_page_names_exist_and_can_be_imported(stack: Stack) -> None:
    kept = sorted((stack.state / ".pulumi" / "backups" / "slicewright" / "prod").glob("*.json"))
    assert kept
    checkpoint = json.loads(kept[-1].read_text())["checkpoint"]
    assert {one["urn"] for one in checkpoint["latest"]["resources"]} <= {*stack.urns()}


def test_a_lost_state_comes_back_from_its_backup(stack: Stack) -> None:
    backup = re.search(r"^ +(pulumi stack export .*)$", PAGE.read_text(), re.MULTILINE)
    assert backup is not None
    assert stack.run(backup[1]).code == 0
    stack.pool_is_deleted_in_the_cloud()  # since then
    for file in (stack.state / ".pulumi" / "stacks" / "slicewright").iterdir():
        file.unlink()
    assert "no stack named" in stack.fails()
    stack.follow(9)
    stack.follow(3)
    stack.is_as_it_was()
