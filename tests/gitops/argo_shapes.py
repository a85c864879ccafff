"""The fields of Argo CD's objects that `gitops/argocd` uses or might, by kind.

Written down from github.com/argoproj/argo-cd, read 2026-11-25:
docs/operator-manual/application.yaml at 0327d2f95be2, manifests/crds/appproject-crd.yaml at
02c7372cbce4, and the page "Directory" of its user guide (release 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.gitops.shapes import ANY, Fields, Many

_KIND = Fields({"group": str, "kind": str}, frozenset({"group", "kind"}))
_DESTINATION = Fields(dict.fromkeys(("server", "name", "namespace"), str))
_AUTOMATED = Fields(dict.fromkeys(("prune", "selfHeal", "allowEmpty", "enabled"), bool))
_RETRY = Fields(
    {
        "limit": int,
        "backoff": Fields({"duration": str, "factor": int, "maxDuration": str}),
    }
)
_SOURCE = Fields(
    {
        **dict.fromkeys(("repoURL", "targetRevision", "path"), str),
        "directory": Fields({"recurse": bool, "include": str, "exclude": str}),
    },
    frozenset({"repoURL"}),
)
_COMMON = {"apiVersion": str, "kind": str, "metadata": ANY}
SHAPES: Final[Mapping[tuple[str, str], Fields]] = {
    ("argoproj.io/v1alpha1", "Application"): Fields(
        {
            **_COMMON,
            "spec": Fields(
                {
                    "project": str,
                    "source": _SOURCE,
                    "destination": _DESTINATION,
                    "syncPolicy": Fields(
                        {"automated": _AUTOMATED, "retry": _RETRY, "syncOptions": Many(str)}
                    ),
                    "revisionHistoryLimit": int,
                },
                frozenset({"project", "destination"}),
            ),
        },
        frozenset({"spec"}),
    ),
    ("argoproj.io/v1alpha1", "AppProject"): Fields(
        {
            **_COMMON,
            "spec": Fields(
                {
                    "description": str,
                    "sourceRepos": Many(str),
                    "destinations": Many(_DESTINATION),
                    "clusterResourceWhitelist": Many(_KIND),
                    "namespaceResourceWhitelist": Many(_KIND),
                }
            ),
        },
        frozenset({"spec"}),
    ),
}
