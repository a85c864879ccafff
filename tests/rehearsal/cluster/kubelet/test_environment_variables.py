"""A container's environment and command."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import (
    MissingReference,
    Unsupported,
    command_line,
    expand,
    field_value,
    variables,
)

POD = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u-1",
        "labels": {"app": "x", "a.b/c": 'say "hi"'},
        "annotations": {"note": "n"},
    },
    "spec": {"nodeName": "node-7", "serviceAccountName": "sa"},
}
OBJECTS = {
    ("configmaps", "settings"): {"colour": "red", "size": "9"},
    ("secrets", "keys"): {"token": "s3"},
}


def lookup(kind: str, name: str) -> Mapping[str, str] | None:
    return OBJECTS.get((kind, name))


def of(container: dict[str, object]) -> dict[str, str]:
    return variables(
        POD, container, lookup, base={"HOME": "/"}, pod_ip="127.9.1.1", host_ip="127.0.0.1"
    )


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)-$(B)", "1-$(B)"),
        ("$$(A)", "$(A)"),
        ("$A ${A}", "$A ${A}"),
        ("$(A", "$(A"),
        ("$$$(A)", "$1"),
        ("x$", "x$"),
    ],
)
def test_references_expand_as_kubernetes_says(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "x"),
        ("metadata.labels['a.b/c']", 'say "hi"'),
        ("metadata.annotations['note']", "n"),
        ("metadata.annotations['absent']", ""),
        ("spec.nodeName", "node-7"),
        ("spec.serviceAccountName", "sa"),
        ("status.podIP", "127.9.1.1"),
        ("status.hostIP", "127.0.0.1"),
        ("metadata.labels", 'a.b/c="say \\"hi\\""\napp="x"'),
    ],
)
def test_fields_of_the_pod_are_found(path: str, value: str) -> None:
    assert field_value(POD, path, pod_ip="127.9.1.1", host_ip="127.0.0.1") == value


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match=r"spec\.hostname"):
        field_value(POD, "spec.hostname", pod_ip="", host_ip="")


def test_later_variables_see_and_override_earlier_ones() -> None:
    made = of(
        {
            "envFrom": [
                {"prefix": "S_", "configMapRef": {"name": "settings"}},
                {"secretRef": {"name": "absent", "optional": True}},
            ],
            "env": [
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "S_size", "value": "10"},
                {"name": "ALL", "value": "$(NODE)/$(S_colour)/$(S_size)/$(LATER)"},
                {"name": "LATER", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
                {
                    "name": "NONE",
                    "valueFrom": {
                        "configMapKeyRef": {"name": "settings", "key": "no", "optional": True}
                    },
                },
            ],
        }
    )
    assert made == {
        "HOME": "/",
        "S_colour": "red",
        "S_size": "10",
        "NODE": "node-7",
        "ALL": "node-7/red/10/$(LATER)",
        "LATER": "s3",
    }


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"configMapKeyRef": {"name": "gone", "key": "k"}}, 'configmap "gone" not found'),
        ({"secretKeyRef": {"name": "keys", "key": "k"}}, "couldn't find key k in secret keys"),
    ],
)
def test_a_missing_reference_is_named(entry: dict[str, object], message: str) -> None:
    with pytest.raises(MissingReference, match=message):
        of({"env": [{"name": "X", "valueFrom": entry}]})


def test_command_and_args_are_expanded() -> None:
    container = {"command": ["run", "--node=$(NODE)"], "args": ["$(NONE)"]}
    assert command_line(container, {"NODE": "n"}) == (("run", "--node=n"), ("$(NONE)",))
