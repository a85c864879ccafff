"""The fields of Pulumi's Kubernetes operator that `gitops/pulumi-operator` uses or might, by type.

Written down from its CustomResourceDefinitions and Go types; not copied, as they are 1.4 MB.
Sources, in github.com/pulumi/pulumi-kubernetes-operator, read 2026-11-23:
deploy/helm/pulumi-operator/crds/pulumi.com_stacks.yaml at 0d34c847fba1,
deploy/helm/pulumi-operator/crds/pulumi.com_programs.yaml at 1b1152e73349,
operator/api/auto/v1alpha1/workspace_types.go at 88a213d67be0. Deprecated fields are left out, so
that an example with one fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.gitops.shapes import ANY, Fields, Many, Named, OneOf

_SELECTOR = Fields({"name": str, "key": str, "namespace": str}, frozenset({"name", "key"}))
_REFERENCE = Fields(
    {
        "type": OneOf(frozenset({"Env", "FS", "Secret", "Literal"})),
        "env": Fields({"name": str}, frozenset({"name"})),
        "filesystem": Fields({"path": str}, frozenset({"path"})),
        "literal": Fields({"value": str}, frozenset({"value"})),
        "secret": _SELECTOR,
    },
    frozenset({"type"}),
)
_KEY = Fields({"name": str, "key": str, "optional": bool}, frozenset({"key"}))
_QUANTITIES = Named(str)
_WORKSPACE = Fields(
    {
        "serviceAccountName": str,
        "securityProfile": OneOf(frozenset({"restricted", "baseline"})),
        "image": str,
        "imagePullPolicy": OneOf(frozenset({"Always", "Never", "IfNotPresent"})),
        "git": Fields(
            {
                "url": str,
                "ref": str,
                "dir": str,
                "shallow": bool,
                "auth": Fields(
                    dict.fromkeys(("sshPrivateKey", "username", "password", "token"), _KEY)
                ),
            }
        ),
        "flux": Fields(dict.fromkeys(("url", "digest", "dir"), str)),
        "env": Many(Fields({"name": str, "value": str, "valueFrom": ANY}, frozenset({"name"}))),
        "envFrom": Many(ANY),
        "resources": Fields({"limits": _QUANTITIES, "requests": _QUANTITIES}),
        "podTemplate": ANY,
        "stacks": Many(
            Fields(
                {"name": str, "create": bool, "secretsProvider": str, "config": Many(ANY)},
                frozenset({"name"}),
            )
        ),
    }
)
_STACK = Fields(
    {
        **dict.fromkeys(
            ("stack", "backend", "secretsProvider", "projectRepo", "branch", "commit", "repoDir"),
            str,
        ),
        **dict.fromkeys(("serviceAccountName",), str),
        **dict.fromkeys(
            (
                *("continueResyncOnCommitMatch", "destroyOnFinalize", "expectNoRefreshChanges"),
                *("preview", "refresh", "retryOnUpdateConflict", "shallow", "targetDependents"),
                "useLocalStackOnly",
            ),
            bool,
        ),
        **dict.fromkeys(("resyncFrequencySeconds", "retryMaxBackoffDurationSeconds"), int),
        **dict.fromkeys(("envRefs", "secretsRef"), Named(_REFERENCE)),
        **dict.fromkeys(("environment", "targets"), Many(str)),
        "config": ANY,
        "configRef": Named(
            Fields({"name": str, "key": str, "json": bool}, frozenset({"name", "key"}))
        ),
        "fluxSource": Fields(
            {
                "dir": str,
                "sourceRef": Fields(
                    dict.fromkeys(("apiVersion", "kind", "name"), str),
                    frozenset({"apiVersion", "kind", "name"}),
                ),
            },
            frozenset({"sourceRef"}),
        ),
        "gitAuth": Fields(
            {
                "accessToken": _REFERENCE,
                "basicAuth": Fields(
                    {"userName": _REFERENCE, "password": _REFERENCE},
                    frozenset({"userName", "password"}),
                ),
                "sshAuth": Fields(
                    {"sshPrivateKey": _REFERENCE, "password": _REFERENCE},
                    frozenset({"sshPrivateKey"}),
                ),
            }
        ),
        "prerequisites": Many(
            Fields(
                {"name": str, "requirement": Fields({"succeededWithinDuration": str})},
                frozenset({"name"}),
            )
        ),
        "programRef": Fields({"name": str}, frozenset({"name"})),
        "updateTemplate": ANY,
        "workspaceReclaimPolicy": OneOf(frozenset({"Retain", "Delete"})),
        "workspaceTemplate": Fields(
            {"apiVersion": str, "kind": str, "metadata": ANY, "spec": _WORKSPACE}
        ),
    }
)
_OPTIONS = Fields(
    {
        **dict.fromkeys(("additionalSecretOutputs", "aliases", "ignoreChanges"), Many(str)),
        **dict.fromkeys(("deleteBeforeReplace", "protect"), bool),
        **dict.fromkeys(("import", "version"), str),
        **dict.fromkeys(("parent", "provider"), ANY),
        "customTimeouts": Fields(dict.fromkeys(("create", "delete", "update"), str)),
        "dependsOn": Many(ANY),
        "providers": Named(ANY),
    }
)
_PROGRAM = Fields(
    {
        "configuration": Named(
            Fields(
                {
                    "type": OneOf(frozenset({"String", "Number", "List<Number>", "List<String>"})),
                    "default": ANY,
                }
            )
        ),
        "outputs": Named(ANY),
        "resources": Named(
            Fields(
                {
                    "type": str,
                    "properties": Named(ANY),
                    "options": _OPTIONS,
                    "get": Fields({"id": str, "state": Named(ANY)}, frozenset({"id"})),
                },
                frozenset({"type"}),
            )
        ),
        "variables": Named(ANY),
    }
)
_COMMON = {"apiVersion": str, "kind": str, "metadata": ANY}
SHAPES: Final[Mapping[tuple[str, str], Fields]] = {
    ("pulumi.com/v1", "Stack"): Fields({**_COMMON, "spec": _STACK}, frozenset({"spec"})),
    # Its content is no spec.
    ("pulumi.com/v1", "Program"): Fields({**_COMMON, "program": _PROGRAM}, frozenset({"program"})),
    ("auto.pulumi.com/v1alpha1", "Workspace"): Fields(
        {**_COMMON, "spec": _WORKSPACE}, frozenset({"spec"})
    ),
}
