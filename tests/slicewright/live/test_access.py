"""The cluster that is asked is the one that kubectl would ask."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN
from slicewright.live.access import NoCluster, NotAKubeconfig, access, merged


def _config(name: str, *, current: bool = True, user: dict[str, Any] | None = None) -> Any:
    config = {
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"}}],
        "users": [{"name": name, "user": user or {"token": f"token-of-{name}"}}],
    }
    return {**config, "current-context": name} if current else config


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def _write(file: Path, config: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    return file


def test_the_default_context_is_the_current_one_of_the_home_directory(tmp_path: Path) -> None:
    _write(tmp_path / "home/.kube/config", _config("home"))
    assert access(None, None).context.server == "https://home:6443"


def test_files_of_the_variable_are_merged_and_the_first_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _write(tmp_path / "a", _config("a"))
    second = _write(tmp_path / "b", _config("b"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'nosuch'}:{first}:{second}")
    assert access(None, None).context.name == "a"
    assert access(None, "b").context.server == "https://b:6443"
    twice = merged([_config("a", user={"token": "1"}), _config("a", user={"token": "2"})])
    assert [entry["user"]["token"] for entry in twice["users"]] == ["1"]


def test_a_kubeconfig_comes_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """As YAML, which JSON is too."""
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(_config("piped"))))
    assert access("-", None).context.name == "piped"


def test_relative_files_belong_to_their_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path / "k/token", "secret")
    file = _write(tmp_path / "k/config", _config("c", user={"tokenFile": "token"}))
    monkeypatch.chdir("/")
    asked = access(str(file), None)
    asked.client()
    assert asked._source.current().token_file == tmp_path / "k/token"


def test_an_exec_plugin_gives_the_token(tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-the-plugin"},
    }
    plugin = _write(tmp_path / "k/login", f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": answer["apiVersion"], "command": "./login"}}
    asked = access(str(_write(tmp_path / "k/config", _config("c", user=user))), None)
    first = asked.client()
    assert asked._source.current().token == "from-the-plugin"
    assert asked.client() is first, "a token is used as long as it is good"
    asked.refused()
    assert asked.client() is not first


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (": [", "config, line 1: neither YAML nor JSON"),
        ("- 1", "not a kubeconfig"),
        ("{}", 'context "" does not exist (the kubeconfig has: none)'),
        (json.dumps(_config("c", current=False)), 'context "" does not exist'),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named_without_its_content(
    tmp_path: Path, content: str, complaint: str
) -> None:
    file = str(_write(tmp_path / "config", content))
    with pytest.raises(NotAKubeconfig) as refused:
        access(file, None)
    assert complaint in str(refused.value)
    assert "--context" in str(refused.value)


@pytest.mark.parametrize("command", [["status"], ["rollout", "pause", "a100"]])
def test_an_invalid_kubeconfig_is_wrong_use_and_a_missing_one_is_not(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(_write(tmp_path / "config", "- 1"))
    assert cli.main([*command, "--kubeconfig", file]) == BAD_INPUT
    assert "not a kubeconfig" in capsys.readouterr().err
    assert cli.main([*command, "--kubeconfig", f"{file}.none"]) == CANNOT_RUN


def test_a_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "v1", "command": "no-such-plugin", "installHint": "get it"}}
    asked = access(str(_write(tmp_path / "config", _config("c", user=user))), None)
    with pytest.raises(NoCluster, match=r"context c: .*no-such-plugin not found"):
        asked.client()
