"""The record of a proof: an object of plain data for the node's report and the agent's memory."""

from __future__ import annotations

from typing import Any

from slicewright.node_agent.compute.judgement import Proof
from slicewright.node_agent.compute.results import DeviceResult

Record = dict[str, Any]


def record_of(proof: Proof, key: str) -> Record:
    """The record, with failing devices first: a report has room for a few devices only.

    key: digest of the state that was proven.
    """
    devices = sorted(proof.devices, key=lambda device: device.failure is None)
    return {
        "key": key,
        "outcome": proof.outcome,
        "seconds": proof.seconds,
        "deviceCount": len(devices),
        "devices": [_entry(device) for device in devices],
    }


def _entry(device: DeviceResult) -> Record:
    entry: Record = {"uuid": device.uuid, "outcome": device.outcome}
    if device.measurement:
        entry["writeGBps"] = round(device.measurement.write_gb_s)
        entry["readGBps"] = round(device.measurement.read_gb_s)
    if device.failure:
        entry["error"] = device.failure.sign.title
    return entry
