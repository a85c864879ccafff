"""`manage-crds apply` of the operator's image, which the chart's pre-upgrade Job runs.

Helm installs a chart's CRDs and never upgrades them, so the chart does it by a Job. Source:
NVIDIA/gpu-operator, deployments/gpu-operator/templates/upgrade_crd.yaml and cmd/manage-crds.
"""

from __future__ import annotations

import sys

from slicewright.kubeapi.client import ApiError, Client, Unreachable, path_of
from slicewright.rehearsal.cluster.gpu_operator.crds import crds


def main(arguments: list[str]) -> int:
    if arguments[:1] != ["apply"]:
        print(f"manage-crds: {' '.join(arguments) or 'nothing'}: only apply is simulated")
        return 2
    try:
        client = Client.in_cluster(user_agent="slicewright-manage-crds")
        for crd in crds():
            name = crd["metadata"]["name"]
            path = path_of(crd["apiVersion"], "customresourcedefinitions", name)
            client.patch(path, crd, kind="apply", fieldManager="manage-crds", force="true")
            print(f"applied {name}", flush=True)
    except (ApiError, Unreachable, OSError) as e:
        print(f"manage-crds: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
