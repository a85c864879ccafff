"""Programs run by the rehearsal's language host, through the real engine."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from slicewright.rehearsal.plugins.engine.language_host import LanguageHost, attach
from slicewright.rehearsal.plugins.engine.protocol import language_pb2, language_pb2_grpc


def test_a_program_runs_with_its_config_and_exports(either: Any) -> None:
    either.write("""
        import os
        import pulumi
        config = pulumi.Config()
        pulumi.export("plain", config.require("plain"))
        pulumi.export("hidden", config.require_secret("hidden"))
        pulumi.export("object", config.require_object("object")["a"][0])
        pulumi.export("where", [os.getcwd(), pulumi.get_project(), pulumi.get_stack(),
            pulumi.get_organization()])
    """)
    either.run("config", "set", "plain", "a value", "--stack", "dev")
    either.run("config", "set", "hidden", "very-secret-value", "--secret", "--stack", "dev")
    either.run("config", "set", "--path", "object.a[0]", "7", "--stack", "dev")
    code, output = either.up()
    assert code == 0, output
    assert "very-secret-value" not in output
    outputs = json.loads(
        either.run("stack", "output", "--json", "--show-secrets", "--stack", "dev")[1]
    )
    assert outputs["plain"] == "a value"
    assert outputs["hidden"] == "very-secret-value"
    assert outputs["object"] == 7
    assert outputs["where"] == [str(either.directory), "tiny", "dev", "organization"]


def test_a_run_error_has_no_traceback_and_an_exception_only_its_own_frames(either: Any) -> None:
    either.write("import pulumi\nraise pulumi.RunError('pool train: no such GPU')")
    code, output = either.up()
    assert code != 0
    assert "error: pool train: no such GPU" in output
    assert "Traceback" not in output
    # As the official executor: exit status 1 after a RunError, not the 32 for a reported error.
    assert "Program exited with non-zero exit code: 1" in output

    either.write("def inner():\n    raise ValueError('broken')\ninner()")
    code, output = either.up()
    assert code != 0
    assert "Program failed with an unhandled exception" in output
    assert "ValueError: broken" in output
    assert "run_program.py" not in output


def test_an_exit_code_is_reported(either: Any) -> None:
    either.write("import os\nos._exit(3)")
    code, output = either.up()
    assert code != 0
    assert "Program exited with non-zero exit code: 3" in output


def test_the_hosts_own_directory_does_not_hide_the_programs_modules(either: Any) -> None:
    (either.directory / "values.py").write_text("answer = 42")
    either.write(
        "import pulumi, sys, values\npulumi.export('answer', "
        "values.answer)\npulumi.export('first', sys.path[0])"
    )
    code, output = either.up()
    assert code == 0, output
    outputs = json.loads(either.run("stack", "output", "--json", "--stack", "dev")[1])
    assert outputs == {"answer": 42, "first": str(either.directory)}


def test_a_missing_virtualenv_is_one_clear_error(project: Any) -> None:
    (project.directory / "Pulumi.yaml").write_text(
        "name: tiny\nruntime: {name: python, options: {virtualenv: .venv}}\n"
    )
    project.write("import pulumi")
    code, output = project.up()
    assert code != 0
    python = project.directory / ".venv" / "bin" / "python"
    assert f"runtime option `virtualenv` is '.venv', but {python} does not exist" in output
    assert "Traceback" not in output


def test_the_projects_virtualenv_runs_the_program(project: Any) -> None:
    environment = project.directory / "environment" / "bin"
    environment.mkdir(parents=True)
    python = environment / "python"
    python.write_text(f'#!/bin/sh\nRAN_BY=the-project exec {sys.executable} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    (project.directory / "Pulumi.yaml").write_text(
        "name: tiny\nruntime: {name: python, options: {virtualenv: environment}}\n"
    )
    project.write(
        "import os, pulumi\npulumi.export('by', [os.environ['RAN_BY'], os.environ['VIRTUAL_ENV']])"
    )
    code, output = project.up()
    assert code == 0, output
    outputs = json.loads(project.run("stack", "output", "--json", "--stack", "dev")[1])
    assert outputs["by"] == ["the-project", str(project.directory / "environment")]


def test_a_program_does_not_outlive_an_interrupted_engine(either: Any) -> None:
    marker = either.directory / "pid"
    either.write(f"""
        import os, time
        open({str(marker)!r}, "w").write(str(os.getpid()))
        time.sleep(120)
    """)
    process = either.start("up", "--yes", "--skip-preview", "--stack", "dev", "--non-interactive")
    deadline = time.monotonic() + 400
    while not (marker.exists() and marker.read_text()):
        assert time.monotonic() < deadline, process.poll()
        time.sleep(0.02)
    pid = int(marker.read_text())
    os.kill(process.pid, 2)
    os.kill(process.pid, 2)
    process.communicate(timeout=180)
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "the program outlived the engine"
        time.sleep(0.02)


def test_the_engine_finds_the_host_on_path_and_it_exits_on_sigint(
    new_project: Callable[[], Any], tmp_path: Path
) -> None:
    directory = tmp_path / "bin"
    directory.mkdir()
    left = tmp_path / "left"
    script = directory / "pulumi-language-python"
    script.write_text(
        f"#!{sys.executable}\n"
        "import os\n"
        "from slicewright.rehearsal.plugins.engine import language_host\n"
        "leave = os._exit\n"
        f"os._exit = lambda status: (open({str(left)!r}, 'a').write(f'{{status}} '), "
        "leave(status))\n"
        "language_host.main()\n"
    )
    script.chmod(0o755)
    project = new_project()
    project.extra["PATH"] = f"{directory}:{os.environ['PATH']}"
    project.extra["PYTHONPATH"] = str(Path.cwd())
    assert project.run("stack", "init", "dev")[0] == 0
    project.write("import pulumi\nprint('hello from the program')\npulumi.export('a', 1)")
    code, output = project.up()
    assert code == 0, output
    assert "hello from the program" in output
    # One that ignored SIGINT would be killed after five seconds, at each of its two starts.
    assert left.read_text().split() == ["0", "0"]


def test_about_lists_the_programs_dependencies(project: Any) -> None:
    project.write("import pulumi")
    code, output = project.run("about", "--json", "--stack", "dev")
    assert code == 0, output
    about = json.loads(output[output.index("{") : output.rindex("}") + 1])
    assert about["runtime"]["language"] == "python"
    assert "pulumi" in {dependency["name"].lower() for dependency in about["dependencies"]}


def test_a_plugin_written_in_python_runs_with_its_arguments_and_ends_with_its_call(
    tmp_path: Path,
) -> None:
    (tmp_path / "plugin.py").write_text(
        "import os, sys, time\n"
        "print(sys.argv[1] + ' ' + os.environ['REGION'] + chr(10), end='', flush=True)\n"
        "print('to stderr', file=sys.stderr, flush=True)\n"
        "sys.exit(7) if sys.argv[1] == 'ends' else time.sleep(3600)\n"
    )
    server, port = attach(LanguageHost())
    stub = language_pb2_grpc.LanguageRuntimeStub(grpc.insecure_channel(f"127.0.0.1:{port}"))

    def run(argument: str) -> Any:
        info = language_pb2.ProgramInfo(
            root_directory=str(tmp_path), program_directory=str(tmp_path), entry_point="plugin.py"
        )
        request = language_pb2.RunPluginRequest(
            pwd=str(tmp_path),
            args=[argument],
            env=["REGION=r1"],
            info=info,
            kind="resource",
            name="sample",
        )
        return stub.RunPlugin(request, timeout=3600)

    answers = list(run("ends"))
    assert b"".join(answer.stdout for answer in answers) == b"ends r1\n"
    assert b"".join(answer.stderr for answer in answers) == b"to stderr\n"
    assert answers[-1].exitcode == 7

    began = time.monotonic()
    stays = run("stays")
    assert next(answer.stdout for answer in stays if answer.stdout) == b"stays r1\n"
    stays.cancel()
    server.stop(None).wait()
    # Plugin and call would go on for an hour.
    assert time.monotonic() - began < 500
