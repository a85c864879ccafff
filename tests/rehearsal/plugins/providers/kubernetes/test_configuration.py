"""Kubeconfigs, exec plugins, another cluster, and a cluster that does not answer."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import Client
from slicewright.kubeapi.kubeconfig import BadKubeconfig
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN
from slicewright.rehearsal.plugins.providers.kubernetes.cluster import Cluster as ProviderCluster
from slicewright.rehearsal.plugins.providers.kubernetes.config_difference import config_difference
from slicewright.rehearsal.plugins.providers.kubernetes.kubeconfig import read

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
NOWHERE = json.dumps(
    {
        "current-context": "c",
        "contexts": [
            {"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "of-context"}}
        ],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
)


def _config_map(name: str = "c", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **more},
        "data": {"a": "1"},
    }


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _with_user(kubeconfig: str, user: dict[str, Any]) -> str:
    config = json.loads(kubeconfig)
    config["users"] = [{"name": config["users"][0]["name"], "user": user}]
    return json.dumps(config)


def _exec(command: Path, **more: Any) -> dict[str, Any]:
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(command),
            "interactiveMode": "Never",
            **more,
        }
    }


# Kubeconfig.


def test_yaml_and_json_and_a_path_are_read(tmp_path: Path) -> None:
    yaml_text = (
        "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
        "clusters: [{name: k, cluster: {server: 'https://x'}}]\nusers: [{name: u, user: {}}]\n"
    )
    (tmp_path / "config").write_text(yaml_text)
    assert read(yaml_text, context=None, cluster=None).server == "https://x"
    assert read(str(tmp_path / "config"), context=None, cluster=None).server == "https://x"
    assert read(NOWHERE, context=None, cluster=None).namespace == "of-context"


@pytest.mark.parametrize("text", ["{", "a: [", "[]", "/no/such/file", "{}"])
def test_a_bad_kubeconfig_is_one_clear_error(text: str) -> None:
    with pytest.raises(BadKubeconfig):
        read(text, context=None, cluster=None)


def test_an_unknown_context_lists_the_known_ones() -> None:
    with pytest.raises(
        BadKubeconfig, match=r'context "d" does not exist \(the kubeconfig has: c\)'
    ):
        read(NOWHERE, context="d", cluster=None)


# Exec plugins.


def test_an_exec_plugin_is_run_once_for_its_certificate(
    cluster: Any, new_provider: Callable[..., Any], namespace: str, tmp_path: Path
) -> None:
    user = json.loads(cluster.kubeconfig)["users"][0]["user"]
    import base64

    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {
            "clientCertificateData": base64.b64decode(user["client-certificate-data"]).decode(),
            "clientKeyData": base64.b64decode(user["client-key-data"]).decode(),
            "expirationTimestamp": "2099-01-01T00:00:00Z",
        },
    }
    (tmp_path / "answer").write_text(json.dumps(answer))
    plugin = _script(
        tmp_path / "plugin",
        f'echo "$1 $REGION" >> {tmp_path}/calls; printf "%s" "$KUBERNETES_EXEC_INFO" > '
        f"{tmp_path}/info; cat {tmp_path}/answer",
    )
    config = _with_user(
        cluster.kubeconfig,
        _exec(
            plugin,
            args=["get-token"],
            env=[{"name": "REGION", "value": "r1"}],
            provideClusterInfo=True,
        ),
    )
    provider = new_provider(kubeconfig=config)

    provider.create(CONFIG_MAP, "c", _config_map(namespace=namespace))
    provider.create(CONFIG_MAP, "d", _config_map("d", namespace=namespace))

    assert (tmp_path / "calls").read_text() == "get-token r1\n"
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"]["interactive"] is False
    assert (
        info["spec"]["cluster"]["server"]
        == json.loads(cluster.kubeconfig)["clusters"][0]["cluster"]["server"]
    )


def test_an_expired_token_is_renewed(cluster: Any, tmp_path: Path) -> None:
    token = _token(cluster.admin)
    plugin = _script(
        tmp_path / "plugin",
        f"""echo >> {tmp_path}/calls
cat <<EOF
{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
"status":{{"token":"{token}","expirationTimestamp":"2020-01-01T00:00:00Z"}}}}
EOF""",
    )
    seen = ProviderCluster(
        read(_with_user(cluster.kubeconfig, _exec(plugin)), context=None, cluster=None)
    )
    seen.probe()
    seen.probe()
    assert (tmp_path / "calls").read_text() == "\n\n"


def test_a_rejected_token_is_renewed_immediately(cluster: Any, tmp_path: Path) -> None:
    token = _token(cluster.admin)
    plugin = _script(
        tmp_path / "plugin",
        f"""if [ -e {tmp_path}/called ]; then token={token}
else token=stale; touch {tmp_path}/called; fi
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'\
'"status":{{"token":"'$token'"}}}}'""",
    )
    ProviderCluster(
        read(_with_user(cluster.kubeconfig, _exec(plugin)), context=None, cluster=None)
    ).probe()


def _token(admin: Client) -> str:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(
        admin.create("/api/v1/namespaces/default/serviceaccounts/default/token", request)["status"][
            "token"
        ]
    )


# Another cluster.


def _provider_inputs(server: str, **more: Any) -> dict[str, Any]:
    config = json.loads(NOWHERE)
    config["clusters"][0]["cluster"]["server"] = server
    return {"kubeconfig": json.dumps(config), "version": "4.34.2", **more}


def test_another_server_replaces_the_provider() -> None:
    assert config_difference(
        _provider_inputs("http://a"), _provider_inputs("http://b")
    ).replaces == ["kubeconfig"]


def test_another_token_for_the_same_server_does_not_replace_the_provider() -> None:
    new = _provider_inputs("http://a")
    new["kubeconfig"] = new["kubeconfig"].replace('"t"', '"t2"')
    found = config_difference(_provider_inputs("http://a"), new)
    assert (found.changes, list(found.replaces)) == (True, [])


def test_an_unknown_kubeconfig_replaces_unless_the_cluster_is_named() -> None:
    old = _provider_inputs("http://a")
    assert config_difference(old, {**old, "kubeconfig": UNKNOWN}).replaces == ["kubeconfig"]
    named = {**old, "clusterIdentifier": "one"}
    assert not config_difference(named, {**named, "kubeconfig": UNKNOWN}).replaces
    assert not config_difference(
        old, {**old, "clusterIdentifier": "one", "kubeconfig": UNKNOWN}
    ).replaces
    assert config_difference(named, {**named, "clusterIdentifier": "two"}).replaces == [
        "clusterIdentifier"
    ]


# A cluster that does not answer.


def test_a_preview_without_a_cluster_is_silent_and_shows_the_inputs(
    new_provider: Callable[..., Any],
) -> None:
    provider = new_provider(kubeconfig=NOWHERE)
    previewed = provider.create(CONFIG_MAP, "c", _config_map(), preview=True)
    assert previewed.outputs == previewed.inputs
    assert previewed.inputs["metadata"]["namespace"] == "of-context"
    assert provider.engine.texts() == []


def test_create_and_update_without_a_cluster_fail(
    new_provider: Callable[..., Any], refused: type[Exception], stored: Callable[..., Any]
) -> None:
    provider = new_provider(kubeconfig=NOWHERE)
    text = (
        "configured Kubernetes cluster is unreachable: unable to load schema information from "
        "the API server: "
    )
    with pytest.raises(refused, match=text):
        provider.create(CONFIG_MAP, "c", _config_map())
    old = stored("of-context/c", _config_map(), _config_map())
    with pytest.raises(refused, match=text):
        provider.update(CONFIG_MAP, "c", old, _config_map())


def test_read_and_delete_without_a_cluster_fail_and_name_delete_unreachable(
    new_provider: Callable[..., Any], refused: type[Exception], stored: Callable[..., Any]
) -> None:
    provider = new_provider(kubeconfig=NOWHERE)
    old = stored("of-context/c", _config_map(), _config_map())
    with pytest.raises(
        refused,
        match=r"failed to read resource state due to unreachable "
        r"cluster.*PULUMI_K8S_DELETE_UNREACHABLE",
    ):
        provider.read(CONFIG_MAP, "c", old)
    with pytest.raises(refused, match=r"due to unreachable cluster"):
        provider.delete(CONFIG_MAP, "c", old)
    assert any("unable to load schema information" in text for text in provider.engine.texts())


def test_delete_unreachable_drops_the_object_from_state(
    new_provider: Callable[..., Any], stored: Callable[..., Any]
) -> None:
    provider = new_provider(kubeconfig=NOWHERE, deleteUnreachable="true")
    old = stored("of-context/c", _config_map(), _config_map())
    assert provider.read(CONFIG_MAP, "c", old) is None
    provider.delete(CONFIG_MAP, "c", old)


def test_skip_update_unreachable_keeps_the_old_inputs_and_warns(
    new_provider: Callable[..., Any],
) -> None:
    provider = new_provider(kubeconfig=NOWHERE, skipUpdateUnreachable=True)
    old = _config_map(namespace="n")
    inputs, _ = provider.check(CONFIG_MAP, "c", {**old, "data": {"a": "2"}}, old)
    assert inputs == old
    assert any("skipUpdateUnreachable" in text for text in provider.engine.texts())


@pytest.mark.parametrize(
    "kubeconfig",
    [
        "no: [yaml",
        "/no/such/file",
        NOWHERE.replace('"current-context": "c"', '"current-context": "d"'),
    ],
)
def test_a_bad_kubeconfig_counts_as_unreachable(
    kubeconfig: str, new_provider: Callable[..., Any], refused: type[Exception]
) -> None:
    provider = new_provider(kubeconfig=kubeconfig)
    with pytest.raises(refused, match=r"configured Kubernetes cluster is unreachable"):
        provider.create(CONFIG_MAP, "c", _config_map())


def test_a_rejected_token_counts_as_unreachable(
    new_provider: Callable[..., Any], as_user: Callable[[str], str], refused: type[Exception]
) -> None:
    provider = new_provider(kubeconfig=as_user("expired"))
    with pytest.raises(refused, match=r"cluster is unreachable.*Unauthorized"):
        provider.create(CONFIG_MAP, "c", _config_map())


def test_a_failing_exec_plugin_counts_as_unreachable(
    cluster: Any, new_provider: Callable[..., Any], refused: type[Exception], tmp_path: Path
) -> None:
    plugin = _script(tmp_path / "plugin", "echo why it failed >&2; exit 3")
    provider = new_provider(kubeconfig=_with_user(cluster.kubeconfig, _exec(plugin)))
    with pytest.raises(
        refused, match=r"getting credentials: exec: executable .*plugin failed with exit code 3"
    ):
        provider.create(CONFIG_MAP, "c", _config_map())


def test_two_providers_of_one_attached_server_have_a_cluster_each(
    cluster: Any, new_provider: Callable[..., Any], namespace: str, refused: type[Exception]
) -> None:
    reachable, nowhere = (
        new_provider(kubeconfig=cluster.kubeconfig),
        new_provider(kubeconfig=NOWHERE),
    )
    assert (
        reachable.create(CONFIG_MAP, "c", _config_map(namespace=namespace)).id == f"{namespace}/c"
    )
    with pytest.raises(refused):
        nowhere.create(CONFIG_MAP, "d", _config_map("d", namespace=namespace))
