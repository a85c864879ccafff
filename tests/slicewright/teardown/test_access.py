"""The cluster is asked with what the kubeconfig of the stack's state names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slicewright.infra import manifests
from slicewright.teardown.access import NoAccess, client_of


def kubeconfig(command: Path | str) -> str:
    server = "https://127.0.0.1:6443"
    plugin = manifests.CredentialPlugin(command=str(command), arguments=())
    return json.dumps(manifests.kubeconfig(cluster="c", server=server, ca_data=None, plugin=plugin))


def plugin(directory: Path, body: str) -> Path:
    script = directory / "plugin"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return script


def test_the_clouds_plugin_gives_the_credential(tmp_path: Path) -> None:
    version = "client.authentication.k8s.io/v1beta1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "t"}}
    client = client_of(kubeconfig(plugin(tmp_path, f"echo '{json.dumps(answer)}'")))
    assert client.server == "https://127.0.0.1:6443"


@pytest.mark.parametrize(("body", "said"), [("exit 1", "exit code 1"), ("echo no", "ExecCred")])
def test_a_plugin_that_fails_is_one_line(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(NoAccess, match=said) as caught:
        client_of(kubeconfig(plugin(tmp_path, body)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["{}", "no JSON", json.dumps({"current-context": "x"})])
def test_an_invalid_kubeconfig_is_reported(text: str) -> None:
    with pytest.raises(NoAccess, match="cannot be used"):
        client_of(text)


def test_a_plugin_that_is_missing_is_named() -> None:
    with pytest.raises(NoAccess, match="slicewright-no-such-plugin"):
        client_of(kubeconfig("slicewright-no-such-plugin"))
