"""One replica of the controller as its container runs it, for tests that kill it.

python -m tests.fleet_controller.replica HOST PORT SERVICE_ACCOUNT_DIRECTORY POD_NAME
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from slicewright.fleet_controller import cli
from slicewright.kubeapi import client

if __name__ == "__main__":
    host, port, account, name = sys.argv[1:]
    os.environ.update(
        KUBERNETES_SERVICE_HOST=host,
        KUBERNETES_SERVICE_PORT=port,
        POD_NAME=name,
        POD_IP="127.0.0.1",
    )
    client.SERVICE_ACCOUNT = Path(account)
    sys.exit(cli.main(["--port", "0"]))
