"""The fleet controller as its container runs it, with its requests counted.

python benchmarks/controller_process.py HOST PORT SERVICE_ACCOUNT_DIRECTORY COUNTS

COUNTS is a JSON file, `{"PATCH nodes": 12, …}`, replaced once a second.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from slicewright.fleet_controller import cli
from slicewright.kubeapi import Client, client

_COLLECTIONS = ("nodes", "pods", "gpupools", "gpunodereports", "leases", "events")


def main() -> int:
    host, port, account, counts = sys.argv[1:]
    os.environ.update(
        KUBERNETES_SERVICE_HOST=host,
        KUBERNETES_SERVICE_PORT=port,
        POD_NAME="bench",
        POD_IP="127.0.0.1",
    )
    client.SERVICE_ACCOUNT = Path(account)
    _count_into(Path(counts))
    return cli.main(["--port", "0"])


def _count_into(file: Path) -> None:
    counted: Counter[str] = Counter()
    lock = threading.Lock()
    send = Client._send

    def counting(
        self: Client, method: str, path: str, query: dict[str, str], *rest: Any, **more: Any
    ) -> Any:
        kind = next((name for name in _COLLECTIONS if f"/{name}" in path), "others")
        verb = "WATCH" if "watch" in query else method
        with lock:
            counted[f"{verb} {kind}"] += 1
        return send(self, method, path, query, *rest, **more)

    Client._send = counting  # type: ignore[method-assign, assignment]

    def write() -> None:
        pause = threading.Event()
        while True:
            with lock:
                text = json.dumps(counted)
            part = file.with_suffix(".part")
            part.write_text(text)
            part.replace(file)
            pause.wait(1.0)

    threading.Thread(target=write, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
