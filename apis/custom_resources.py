"""The custom resources, as CustomResourceDefinitions.

`GPUNodeReport` (cluster scope, one per GPU node, named like the node): the findings of the node's
agent. The agent replaces `report` as a whole. Its owner is the Node, so it is deleted with it.
There is no status subresource, because the object is nothing but a report.

`GPUPool` (cluster scope, one per pool): `spec` is written by the Pulumi program, `status` by the
fleet controller.
"""

from __future__ import annotations

from slicewright.apis import node_report
from slicewright.apis.gpu_pool import schema as pool_schema
from slicewright.apis.names import (
    GROUP,
    POOL_KIND,
    POOL_PLURAL,
    REPORT_KIND,
    REPORT_PLURAL,
    VERSION,
    Manifest,
)


def crds() -> list[Manifest]:
    """Returns the CustomResourceDefinitions of `GPUNodeReport` and `GPUPool`."""
    return [
        _crd(
            REPORT_KIND,
            REPORT_PLURAL,
            "gnr",
            node_report.SCHEMA,
            node_report.COLUMNS,
            subresources={},
        ),
        _crd(
            POOL_KIND,
            POOL_PLURAL,
            "gp",
            pool_schema.SCHEMA,
            pool_schema.COLUMNS,
            subresources={"status": {}},
        ),
    ]


def _crd(
    kind: str,
    plural: str,
    short: str,
    schema: Manifest,
    columns: list[Manifest],
    *,
    subresources: Manifest,
) -> Manifest:
    version: Manifest = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
    }
    if subresources:
        version["subresources"] = subresources
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["slicewright"],
            },
            "versions": [version],
        },
    }
