"""Diff: the stored live object against the inputs, path by path, and what replaces."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN
from slicewright.rehearsal.plugins.providers.kubernetes.comparison import prune, show
from slicewright.rehearsal.plugins.providers.kubernetes.difference import difference


def _object(kind: str = "ConfigMap", api_version: str = "v1", **body: Any) -> JsonObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "n"},
        **body,
    }


def _diff(
    old: JsonObject, new: JsonObject, live: JsonObject | None = None, **settings: bool
) -> Any:
    flags = {"config_maps_mutable": False, "secrets_mutable": False} | settings
    return difference(live or old, old, new, **flags)


def test_fields_that_only_the_server_set_are_no_change() -> None:
    inputs = _object(data={"a": "1"})
    live = _object(data={"a": "1", "foreign": "2"}, status={"x": 1})
    live["metadata"] |= {"uid": "u", "labels": {"other": "tool"}}
    assert _diff(inputs, inputs, live).changes is False


def test_drift_in_the_stored_live_object_is_a_change() -> None:
    inputs = _object("Service", spec={"ports": [{"port": 80}]})
    live = _object("Service", spec={"ports": [{"port": 81}]})
    assert _diff(inputs, inputs, live).detailed == {"spec.ports[0].port": "update"}


def test_lists_go_by_index_appended_elements_are_ignored() -> None:
    inputs = _object("X", spec={"list": [{"a": 1}]})
    live = _object("X", spec={"list": [{"a": 1, "b": 2}, {"c": 3}]})
    assert _diff(inputs, inputs, live).changes is False


def test_a_key_that_is_no_identifier_is_quoted_and_a_new_map_is_one_addition() -> None:
    new = _object(data={"c.yaml": "x"})
    new["metadata"] = {**new["metadata"], "labels": {"a": "b", "c": "d"}}
    found = _diff(_object(data={}), new)
    assert found.detailed == {'data["c.yaml"]': "add-replace", "metadata.labels": "add"}


def test_a_removal_is_a_deletion_of_an_input() -> None:
    found = _diff(_object("X", spec={"a": 1, "b": 2}), _object("X", spec={"a": 1}))
    assert found.detailed == {"spec.b": "delete"}
    assert found.input_paths == frozenset({"spec.b"})


@pytest.mark.parametrize(
    ("api_version", "kind", "before", "after", "path"),
    [
        ("v1", "ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}, "data.a"),
        (
            "v1",
            "ConfigMap",
            {"binaryData": {"a": "eA=="}},
            {"binaryData": {"a": "eQ=="}},
            "binaryData.a",
        ),
        ("v1", "Secret", {"type": "Opaque"}, {"type": "x/y"}, "type"),
        ("v1", "Secret", {"data": {"a": "eA=="}}, {"data": {"a": "eQ=="}}, "data.a"),
        (
            "apps/v1",
            "DaemonSet",
            {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
            {"spec": {"selector": {"matchLabels": {"a": "c"}}}},
            "spec.selector.matchLabels.a",
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            {"roleRef": {"name": "a"}},
            {"roleRef": {"name": "b"}},
            "roleRef.name",
        ),
        (
            "v1",
            "Service",
            {"spec": {"clusterIP": "10.0.0.1"}},
            {"spec": {"clusterIP": "None"}},
            "spec.clusterIP",
        ),
        (
            "v1",
            "ResourceQuota",
            {"spec": {"scopes": ["A"]}},
            {"spec": {"scopes": ["B"]}},
            "spec.scopes[0]",
        ),
        (
            "batch/v1",
            "Job",
            {"spec": {"completions": 1}},
            {"spec": {"completions": 2}},
            "spec.completions",
        ),
    ],
)
def test_the_replace_table(
    api_version: str, kind: str, before: JsonObject, after: JsonObject, path: str
) -> None:
    found = _diff(_object(kind, api_version, **before), _object(kind, api_version, **after))
    assert found.detailed == {path: "update-replace"}
    assert found.replaces == [path]
    assert found.delete_before_replace is True


@pytest.mark.parametrize(
    ("api_version", "kind", "before", "after"),
    [
        (
            "apps/v1",
            "DaemonSet",
            {"spec": {"template": {"a": 1}}},
            {"spec": {"template": {"a": 2}}},
        ),
        ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1}, {"value": 2}),
        ("v1", "Service", {"spec": {"type": "ClusterIP"}}, {"spec": {"type": "NodePort"}}),
    ],
)
def test_all_other_paths_update_in_place(
    api_version: str, kind: str, before: JsonObject, after: JsonObject
) -> None:
    found = _diff(_object(kind, api_version, **before), _object(kind, api_version, **after))
    assert found.changes is True
    assert not found.replaces


def test_a_new_name_or_namespace_replaces_without_deleting_first() -> None:
    new = _object()
    new["metadata"] = {"name": "y", "namespace": "n"}
    found = _diff(_object(), new)
    assert (found.replaces, found.delete_before_replace) == (["metadata.name"], False)


def test_an_autonamed_object_is_not_deleted_before_its_replacement() -> None:
    def autonamed(value: str) -> JsonObject:
        made = _object(data={"a": value})
        made["metadata"] = {**made["metadata"], "annotations": {"pulumi.com/autonamed": "true"}}
        return made

    found = _diff(autonamed("1"), autonamed("2"))
    assert (found.replaces, found.delete_before_replace) == (["data.a"], False)


def test_mutable_config_maps_are_updated_unless_they_say_immutable() -> None:
    old, new = _object(data={"a": "1"}), _object(data={"a": "2"})
    assert not _diff(old, new, config_maps_mutable=True).replaces
    assert _diff(
        {**old, "immutable": True}, {**new, "immutable": True}, config_maps_mutable=True
    ).replaces == ["data.a"]


def test_mutable_secrets_still_replace_for_a_new_type() -> None:
    old, new = _object("Secret", data={"a": "1"}), _object("Secret", data={"a": "2"})
    assert not _diff(old, new, secrets_mutable=True).replaces
    assert _diff(
        _object("Secret", type="a"), _object("Secret", type="b"), secrets_mutable=True
    ).replaces == ["type"]


def test_an_unknown_new_value_on_a_replacing_path_replaces() -> None:
    found = _diff(_object(data={"a": "1"}), _object(data={"a": UNKNOWN}))
    assert found.replaces == ["data.a"]


def test_the_namespace_that_check_gave_to_a_cluster_scoped_object_is_no_change() -> None:
    inputs = _object("GPUPool", "slicewright.io/v1alpha1", spec={"size": 1})
    live = {**inputs, "metadata": {"name": "x", "uid": "u"}}
    assert _diff(inputs, inputs, live).changes is False


def test_paths_are_written_as_the_engine_writes_them() -> None:
    assert show(("spec", "containers", 0, "image")) == "spec.containers[0].image"
    assert show(("metadata", "labels", "a/b")) == 'metadata.labels["a/b"]'


def test_pruning_keeps_empty_values_that_both_have() -> None:
    assert prune({"a": {}, "b": [], "c": 1}, {"a": {}, "b": [], "d": 2}) == {"a": {}, "b": []}
