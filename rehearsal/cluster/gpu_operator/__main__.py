"""`python -m slicewright.rehearsal.cluster.gpu_operator`: runs in a pod, until SIGTERM."""

from __future__ import annotations

import logging
import os
import sys

from slicewright.kubeapi.client import SERVICE_ACCOUNT, Client, Unreachable
from slicewright.rehearsal.cluster.gpu_operator.controller import Operator
from slicewright.rehearsal.cluster.gpu_operator.health import serve
from slicewright.telemetry.signals import at_signal


def main() -> int:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    try:
        client = Client.in_cluster(user_agent="slicewright-gpu-operator")
    except (Unreachable, OSError) as e:
        print(f"GPU operator stand-in: {e}", file=sys.stderr)
        return 1
    namespace_file = SERVICE_ACCOUNT / "namespace"
    namespace = os.environ.get("OPERATOR_NAMESPACE") or (
        namespace_file.read_text().strip() if namespace_file.exists() else "gpu-operator"
    )
    operator = Operator(client, namespace)
    at_signal(operator.stop)
    print(f"GPU operator stand-in (simulated v26.7.0) in namespace {namespace}", flush=True)
    if address := os.environ.get("SLICEWRIGHT_REHEARSAL_POD_ADDRESS"):
        serve(address)
    operator.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
