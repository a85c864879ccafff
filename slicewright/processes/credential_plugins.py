"""Runs the exec plugins of kubeconfigs, such as `aws eks get-token`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from slicewright.kubeapi.exec_credentials import NoCredentials, NoPlugin, PluginOutput
from slicewright.processes.programs import NotInstalled, Program, ProgramFailed, run

_LIMIT_S: Final = 60.0
_LARGEST_OUTPUT: Final = 2**20


def run_plugin(argv: Sequence[str], environment: Mapping[str, str]) -> PluginOutput:
    """Raises NoPlugin, NoCredentials and signals.Interrupted."""
    program = Program(
        argv=argv,
        name=f"the credential plugin {argv[0]}",
        limit_s=_LIMIT_S,
        environment=environment,
        largest_output=_LARGEST_OUTPUT,
        grace_s=2.0,
        shows_stderr=False,
    )
    try:
        ended = run(program)
    except NotInstalled:
        raise NoPlugin from None
    except ProgramFailed as e:
        raise NoCredentials(f"getting credentials: exec: {e}") from None
    return PluginOutput(code=ended.code, stdout=ended.stdout)
