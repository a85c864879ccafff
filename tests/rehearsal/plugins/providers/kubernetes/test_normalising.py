"""A program's manifests in the form that Kubernetes' Go types write."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, Secret
from slicewright.rehearsal.plugins.providers.kubernetes.normalise import copy_marks, normalise
from slicewright.rehearsal.plugins.providers.kubernetes.quantities import canonical


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("0.1", "100m"),
        (1, "1"),
        (0.5, "500m"),
        ("1.5Gi", "1536Mi"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("12345678", "12345678"),
        ("100k", "100k"),
        ("0.5Gi", "512Mi"),
        ("-1", "-1"),
    ],
)
def test_a_quantity_has_one_canonical_form(written: str | float, stored: str) -> None:
    assert canonical(written) == stored


@pytest.mark.parametrize("text", ["three", "1 Gi", "", "1KI", "--1"])
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        canonical(text)


def _daemonset(container: dict[str, object], **pod: object) -> dict[str, object]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": [container], **pod}}},
    }


def test_unknown_and_empty_omitempty_fields_are_dropped_and_pointers_stay() -> None:
    container = {
        "name": "c",
        "image": "i",
        "args": [],
        "imagePullPolcy": "Always",
        "env": [{"name": "A", "value": ""}],
        "securityContext": {},
        "tty": False,
    }
    pod = {
        "hostNetwork": False,
        "nodeSelector": {},
        "automountServiceAccountToken": False,
        "securityContext": {},
        "volumes": [],
    }

    normal = normalise(_daemonset(container, **pod))

    assert normal["spec"]["template"]["spec"] == {
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A"}], "securityContext": {}}],
        "automountServiceAccountToken": False,
        "securityContext": {},
    }


def test_no_field_is_added() -> None:
    normal = normalise(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"replicas": 0},
        }
    )
    assert normal == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 0},
    }


def test_quantities_inside_a_pod_become_canonical() -> None:
    container = {
        "name": "c",
        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi", "nvidia.com/gpu": 1}},
    }
    normal = normalise(_daemonset(container))
    limits = normal["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}


def test_a_value_that_does_not_fit_its_type_is_unchanged() -> None:
    written = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": "three", "bogus": 1},
    }
    assert normalise(written) == written


def test_an_object_with_an_unknown_value_is_unchanged() -> None:
    written = _daemonset({"name": UNKNOWN, "args": []})
    assert normalise(written) == written


def test_custom_resources_are_unchanged() -> None:
    written = {
        "apiVersion": "slicewright.io/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": "p"},
        "spec": {"x": [], "y": {}},
    }
    assert normalise(written) == written


def test_string_data_of_a_secret_becomes_data() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": "eA=="},
        "stringData": {"b": "y"},
    }
    assert normalise(secret)["data"] == {"a": "eA==", "b": "eQ=="}
    assert "stringData" not in normalise(secret)


def test_a_crd_loses_its_status_and_gets_dashes_in_its_keys() -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "n"},
        "status": {"x": 1},
        "spec": {
            "versions": [
                {
                    "name": "v1",
                    "served": False,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x_kubernetes_preserve_unknown_fields": True,
                            "properties": {
                                "a": {
                                    "type": "array",
                                    "items": {"type": "string", "enum": ["x"]},
                                    "bogus": 1,
                                }
                            },
                            "default": {"kept": []},
                        }
                    },
                }
            ]
        },
    }
    normal = normalise(crd)
    assert "status" not in normal
    version = normal["spec"]["versions"][0]
    assert version["served"] is False
    assert version["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"a": {"type": "array", "items": {"type": "string", "enum": ["x"]}}},
        "default": {"kept": []},
    }


def test_read_only_metadata_is_removed() -> None:
    written = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
    }
    assert normalise(written)["metadata"] == {"name": "c", "labels": {"a": "b"}}


def test_secret_marks_are_copied_by_path_and_a_list_is_marked_as_a_whole() -> None:
    marked = {"data": {"a": Secret("x"), "b": "y"}, "list": ["p", Secret("q")]}
    assert copy_marks({"data": {"a": "x", "b": "y", "c": 1}, "list": ["p", "q"]}, marked) == {
        "data": {"a": Secret("x"), "b": "y", "c": 1},
        "list": Secret(["p", "q"]),
    }
