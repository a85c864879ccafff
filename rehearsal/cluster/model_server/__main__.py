"""`python -m slicewright.rehearsal.cluster.model_server FLAGS…`: vLLM's `api_server.py`, without a
model.

Exit codes: 0 after SIGTERM, when all requests are answered; 1 without a device or a model; 2 for a
command line that is not vLLM's.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from slicewright.node_agent.nvml.probe import probe
from slicewright.rehearsal.cluster.model_server import devices, flags, start_up, turns
from slicewright.rehearsal.cluster.model_server.devices import Device, NoDevice
from slicewright.rehearsal.cluster.model_server.engine import Engine
from slicewright.rehearsal.cluster.model_server.flags import Flags, WrongFlags
from slicewright.rehearsal.cluster.model_server.http_messages import LIMIT
from slicewright.rehearsal.cluster.model_server.measurements import Measurements
from slicewright.rehearsal.cluster.model_server.serving import SIMULATED, Serving

RELEASE: Final = "SLICEWRIGHT_REHEARSAL_RELEASE"
"""The release of the image in whose place this runs, of its tag; empty for a digest alone."""
ADDRESS: Final = "SLICEWRIGHT_REHEARSAL_POD_ADDRESS"
"""Of the pod: all pods share this machine's network."""
_ANY: Final = ("0.0.0.0", "::", "")  # noqa: S104 - the pod's address takes their place


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    release = environment.get(RELEASE, "")
    if arguments[:1] == ["serve"]:
        # `vllm serve MODEL FLAGS…`
        arguments = [*(f"--model={model}" for model in arguments[1:2]), *arguments[2:]]
    try:
        settings = flags.parse(arguments, release=release)
        used = devices.replica_devices(devices.devices(probe()), settings.devices)
    except WrongFlags as e:
        print(e, file=sys.stderr)
        return 2
    except NoDevice as e:
        print(e, file=sys.stderr)
        return 1
    _say(f"simulated: vLLM API server version {release or 'unknown'}; {SIMULATED}")
    if settings.unknown:
        names = " ".join(argument.partition("=")[0] for argument in settings.unknown)
        _say(f"simulated: not checked, because flags of this release are not known here: {names}")
    for device in used:
        _say(
            f"simulated: on {device.name} (UUID: {device.uuid}), {device.multiprocessors} "
            f"multiprocessors, {device.memory_mib} MiB"
        )
    try:
        asyncio.run(_run(settings, release, used, environment))
    except OSError as e:
        print(f"OSError: {e}", file=sys.stderr)
        return 1
    return 0


async def _run(
    settings: Flags, release: str, used: tuple[Device, ...], environment: Mapping[str, str]
) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    home = Path(environment.get("HF_HOME") or f"{environment.get('HOME', '')}/.cache/huggingface")
    for phase in start_up.phases(settings, home):
        if phase.text:
            _say(phase.text)
        if await _stopped(stopping, phase.seconds):
            return
    rate = devices.tokens_per_second(used)
    serving = Serving(
        flags=settings,
        release=release,
        used=used,
        engine=Engine(rate, settings.max_num_seqs),
        measured=Measurements(settings.names[0], settings.max_model_len),
        turns=_turns(used, environment),
        # The flag takes precedence, as in vLLM.
        api_key=settings.api_key or environment.get("VLLM_API_KEY") or None,
    )
    engine = asyncio.create_task(serving.run())
    host = environment.get(ADDRESS) if settings.host in _ANY else settings.host
    server = await asyncio.start_server(
        serving.answer, host, settings.port, limit=LIMIT, backlog=2048
    )
    _say(f"simulated: Uvicorn running on http://{settings.host}:{settings.port}; {rate:g} tokens/s")
    ended = asyncio.create_task(stopping.wait())
    await asyncio.wait({ended, engine}, return_when=asyncio.FIRST_COMPLETED)
    if engine.done():
        engine.result()  # raises what ended it
    server.close()
    await serving.drained()
    _say("simulated: all requests are answered; the server ends")
    engine.cancel()


def _turns(used: tuple[Device, ...], environment: Mapping[str, str]) -> list[turns.Turns]:
    """None outside a simulated node, where no other process uses the devices."""
    at, process_name = turns.DIRECTORY, f"{environment.get(ADDRESS, '')}-{os.getpid()}"
    return [turns.Turns(at / device.uuid, process_name) for device in used] if at.is_dir() else []


async def _stopped(stopping: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return False
    return True


def _say(text: str) -> None:
    print(f"INFO {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
