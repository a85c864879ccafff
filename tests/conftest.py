"""What all tests share: tools that are not ours, found, fetched or built once per machine, never
skipped; and no stop-watch.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from slicewright.rehearsal.clouds.endpoint import Endpoint
from slicewright.rehearsal.host import toolchain as toolchain_package
from slicewright.rehearsal.host.toolchain import Toolchain, ensure, go_sdk, triton, workload_tools
from slicewright.rehearsal.host.toolchain.acquisition import obtain
from slicewright.rehearsal.host.toolchain.cache import Cache
from slicewright.rehearsal.host.toolchain.go_sdk import Sdk
from slicewright.rehearsal.host.toolchain.settings import Settings, from_environment
from slicewright.rehearsal.host.toolchain.tools import TOOLS
from slicewright.rehearsal.host.toolchain.versions import Answers

# Workers start processes by a fork that execs at once. grpc's handlers would start its threads anew
# in between, which now and then abort, as their descriptors are closed.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
from slicewright.rehearsal.plugins.engine import served_program

_ROOT = Path(__file__).resolve().parents[1]
TOOLCHAIN_VARIABLE = "SLICEWRIGHT_TEST_TOOLCHAIN"

# Where Python is told to write no bytecode, every worker would compile all tests, and every process
# that they start all of the project. It lies beside the sources, as the rehearsal itself writes it:
# simulated nodes read it there, and an environment's links to the checkout lead to it. Below a
# prefix of paths, each environment compiled the SDKs of the clouds anew: 20 s of processor time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.pop("PYTHONPYCACHEPREFIX", None)
sys.dont_write_bytecode = False
sys.pycache_prefix = None

# A shell starts background jobs with SIGINT ignored, and nohup starts its command with SIGHUP
# ignored. Every process that a test starts would inherit that, and tests would signal it in vain.
for _signal, _usual_handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual_handler)

# Until the tests are collected; see pytest_collection_finish.
gc.disable()

# An example that a busy machine was slow at says nothing about the code; pytest's own limit ends
# what hangs.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # To say which parts of a counterexample matter took longer than to find it.
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
# A tenth of the examples: `make unit`. See tests/properties.py.
settings.register_profile("quick", settings.get_profile("any machine"), max_examples=10)
settings.load_profile("any machine")


# Fixtures through which a test gets a tool that is found, downloaded or built: such a test is no
# unit test. Every fixture that starts a cluster or an engine asks for one of them.
TOOL_FIXTURES = frozenset(
    {
        *(
            "toolchain",
            "whole_toolchain",
            "triton_toolchain",
            "monitoring_toolchain",
            "volcano_toolchain",
            "one_tool",
            "go",
            "cross_check",
            "kstatus",
            "fake_library",
            "library",
        ),
        "policy_environment",
    }
)
# The fixture of all that serve the simulated clouds over HTTP: no unit tests either, because the
# clouds' SDKs that call them take a tenth of a second of processor time a test.
CLOUDS_FIXTURE = "clouds_over_http"
# Whole runs, the longest first: no worker begins one when the others are nearly done.
WHOLE_RUNS = "tests/rehearsal/scenario/whole_run/"
LONGEST = (
    # It waits for Prometheus to forget what it scraped, five minutes at a time.
    "tests/rehearsal/cluster/monitoring/test_keda.py",
    *(
        f"{WHOLE_RUNS}test_{name}.py"
        for name in (
            *("eks_fleet", "gke_fleet", "served_models", "autoscaling", "served_by_triton"),
            *("drift", "eks_orders", "existing_cluster", "adopted_operator"),
        )
    ),
)
# Of the quick tests: while it waits for servers to start, another worker has the processor.
WAITS_MOST = "tests/rehearsal/cluster/model_server/test_serving.py"
# Directories whose tests share one cluster, or the machine's lock of `slicewright-agent apply`: all
# on one worker.
ONE_WORKER = (
    "tests/node_agent/host",
    "tests/fleet_controller",
    "tests/rehearsal/cluster/control_plane",
    "tests/rehearsal/cluster/gpu_operator",
    "tests/rehearsal/cluster/kubelet",
    "tests/rehearsal/cluster/monitoring",
    "tests/rehearsal/plugins/providers/kubernetes",
)
# Files whose tests import the Pulumi SDKs of the clouds, 5 s of processor time: on one worker, too.
SDK_FILES = frozenset(
    (
        "tests/licences/test_deployments.py",
        "tests/rehearsal/plugins/bridge/test_schema.py",
        *(
            f"tests/infra/test_{name}.py"
            for name in (
                "adopted_operator",
                "any_file_in_clouds",
                "changes_in_clouds",
                "eks_access",
                "eks_addons",
                "eks_autoscaler",
                "eks_efa",
                "eks_launch_template",
                "eks_machine_types",
                "eks_network",
                "eks_placement",
                "eks_pod_identities",
                "eks_reality",
                "eks_subnets",
                "eks_updates",
                "existing_cluster",
                "existing_gke_cluster",
                "gke_capacity",
                "gke_encryption",
                "gke_gpu_direct",
                "gke_gpu_network",
                "gke_maintenance",
                "gke_monitoring",
                "gke_network",
                "gke_operator",
                "karpenter",
                "monitoring_objects",
                "pairs_of_files_in_clouds",
                "policy",
                "program",
                "rights",
                "urns",
                "verified_start",
                "workload_objects",
            )
        ),
    )
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the rendered files of tests/infra/golden, to be read in the diff",
    )
    parser.addoption(
        "--record-operands",
        action="store_true",
        help="write what NVIDIA's programs do in the rehearsal, to which the simulation is held",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by the fixtures they use, and sorts their files, the slowest first."""
    ranks: dict[str, tuple[int, int]] = {}
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if not TOOL_FIXTURES.isdisjoint(fixtures):
            item.add_marker(pytest.mark.toolchain)
        if CLOUDS_FIXTURE in fixtures:
            item.add_marker(pytest.mark.clouds)
        file = _file(item.nodeid)
        ranks[file] = min(_rank(item, file), ranks.get(file, (4, 0)))
    items.sort(key=lambda item: ranks[_file(item.nodeid)])
    _check_long_marks(items)


def _check_long_marks(items: Sequence[pytest.Item]) -> None:
    """`make test` leaves a test with the mark `long` out: the mark names the file of a test that
    `make test` runs, and what that shows first.
    """
    marks = [(_file(item.nodeid), mark) for item in items for mark in item.iter_markers("long")]
    modules = {module for item in items if (module := item.getparent(pytest.Module))}
    all_long = {
        module.nodeid for module in modules if "long" in {mark.name for mark in module.own_markers}
    }
    wrong = {
        f"{file}: {problem}" for file, mark in marks if (problem := problem_of_long(mark, all_long))
    }
    if wrong:
        raise pytest.UsageError("\n".join(sorted(wrong)))


def problem_of_long(mark: pytest.Mark, all_long: Set[str]) -> str:
    """all_long: the files of which `make test` runs nothing."""
    instead = 'write pytest.mark.long("WHAT: tests/FILE.py"), with a test that `make test` runs'
    if len(mark.args) != 1 or mark.kwargs:
        return f"the mark `long` needs one argument; {instead}"
    files = re.findall(r"\btests/[\w/]+\.py\b", str(mark.args[0]))
    if not files:
        return f"the mark `long` names no file of tests; {instead}"
    for file in files:
        if not (_ROOT / file).is_file():
            return f"the mark `long` names {file}, which does not exist; {instead}"
        if file in all_long:
            return f"the mark `long` names {file}, whose tests are all long; {instead}"
    return ""


def _rank(item: pytest.Item, file: str) -> tuple[int, int]:
    """The longest and whole runs, then what starts engines and clusters: these mostly wait. Last
    the many small files that only compute, and fill up whichever worker is done.
    """
    if file in LONGEST:
        return 0, LONGEST.index(file)
    if file.startswith(WHOLE_RUNS):
        return 0, len(LONGEST)
    if item.get_closest_marker("toolchain") or file == WAITS_MOST:
        return 1, 0
    # One worker takes them all.
    return (2, 0) if file in SDK_FILES else (3, 0)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def pytest_collection_finish() -> None:
    """Python's garbage collector took a third of the unit tests' time for what is loaded by now and
    stays until the end.
    """
    gc.freeze()
    gc.enable()
    # Most objects of a recording of the program live until it ends.
    gc.set_threshold(200_000, 20, 50)


def pytest_unconfigure() -> None:
    """pytest's own plugin for exceptions in destructors collects all garbage several times at the
    end of a process, which took seconds in each.
    """
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Each file on one worker, and so each directory of ONE_WORKER and all of SDK_FILES."""
    # By xdist's own `--dist loadgroup` marks are ignored under pytest 9.2 (pytest-xdist 3.8.0).
    return _ByFileOrDirectory(config, log)


class _ByFileOrDirectory(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = _file(nodeid)
        if file in SDK_FILES:
            return "SDKs"
        return next((d for d in ONE_WORKER if file.startswith(f"{d}/")), file)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forgets the test: at the end of each, xdist counts those of its worker that are left,
        among all that it has ever had.
        """
        super().mark_test_complete(node, item_index, duration)
        nodeid = self.registered_collections[node][item_index]
        scope = self._split_scope(nodeid)
        tests = self.assigned_work[node][scope]
        del tests[nodeid]
        if not tests:
            del self.assigned_work[node][scope]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test without the marks `toolchain` and `rehearsal` fails where it reaches for a tool, and
    where it serves the simulated clouds over HTTP without the mark `clouds`.
    """
    # Not a fixture: its set-up would be a sixth of the calls of a test that does nothing.
    builds = any(item.get_closest_marker(mark) for mark in ("toolchain", "rehearsal"))
    toolchain_package.obtain = obtain if builds else _refuse_tools
    serves = builds or item.get_closest_marker("clouds")
    Endpoint.__init__ = _ENDPOINT_INIT if serves else _refuse_clouds


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_SharedByDirectory())


class _SharedByDirectory:
    """The session's fixtures of a directory of ONE_WORKER end with its last test on this worker: a
    control plane that nobody uses still takes a twentieth of a core.

    pytest has no scope between `module` and `session` but `package`, which needs test packages with
    the names of ours. A plugin of its own, because a conftest is not told of a session's fixtures.
    """

    def __init__(self) -> None:
        self._there: list[tuple[pytest.FixtureDef[Any], Any]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> None:
        if fixturedef.scope == "session" and fixturedef.baseid in ONE_WORKER:
            self._there.append((fixturedef, request))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        directory = _directory_of(item)
        if directory is not None and (nextitem is None or _directory_of(nextitem) != directory):
            while self._there:
                fixturedef, request = self._there.pop()
                fixturedef.finish(request)


def _directory_of(item: pytest.Item) -> str | None:
    return next((d for d in ONE_WORKER if item.nodeid.startswith(f"{d}/")), None)


_ENDPOINT_INIT = Endpoint.__init__


def _refuse_tools(*_: object) -> NoReturn:
    pytest.fail("a unit test asked for the toolchain; take the `toolchain` fixture instead")


def _refuse_clouds(*_: object) -> NoReturn:
    pytest.fail(f"a unit test serves the clouds over HTTP; take the `{CLOUDS_FIXTURE}` fixture")


@pytest.fixture(scope="session")
def policy_environment() -> Path:
    """The Python of the pack's environment, which `make policy` builds from its lock file."""
    root = Path(__file__).resolve().parents[1]
    # Two workers may ask for it at once.
    with (root / "policy" / "requirements.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = subprocess.run(
            ["make", "--no-print-directory", "policy"],
            cwd=root,
            # Not a whole run's own: pip asks rustc for its version, which leaves a file there.
            env={**os.environ, "HOME": pwd.getpwuid(os.getuid()).pw_dir},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
    assert built.returncode == 0, built.stderr
    return root / "policy" / ".venv" / "bin" / "python"


@pytest.fixture(scope="session")
def clouds_over_http() -> None:
    """Asked for by what serves the simulated clouds over HTTP, in this process or as a service."""


@pytest.fixture(scope="session")
def toolchain() -> Iterator[Toolchain]:
    """The real tools; those that a toolchain.json names, where SLICEWRIGHT_TEST_TOOLCHAIN gives its
    path. Pulumi programs that they run are forks of one process, which has imported the SDKs.
    """
    given = os.environ.get(TOOLCHAIN_VARIABLE)
    with (
        # Not in pytest's: the path of a Unix socket has at most 107 characters.
        TemporaryDirectory(prefix="sw-programs-", dir="/tmp") as directory,
        served_program.server(Path(directory, "socket")),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(served_program.VARIABLE, f"{directory}/socket")
        yield Toolchain.load(Path(given)) if given else ensure(print)


@pytest.fixture(scope="session")
def whole_toolchain(toolchain: Toolchain) -> Toolchain:
    """With the tools that only some rehearsals need, for tests of several of those."""
    if TOOLCHAIN_VARIABLE in os.environ:
        return toolchain
    left_out = {workload_tools.TRITON} if triton.why_not_here() else set()
    return ensure(print, set(workload_tools.OF_TESTS) - left_out)


@pytest.fixture(scope="session")
def monitoring_toolchain(toolchain: Toolchain) -> Toolchain:
    """With Prometheus, its operator and promtool."""
    return toolchain if TOOLCHAIN_VARIABLE in os.environ else ensure(print, {"monitoring"})


@pytest.fixture(scope="session")
def volcano_toolchain(toolchain: Toolchain) -> Toolchain:
    """With Volcano's scheduler and controllers. A session's, so that it is obtained before a whole
    run changes HOME.
    """
    if TOOLCHAIN_VARIABLE in os.environ:
        return toolchain
    return ensure(print, (workload_tools.VOLCANO,))


@pytest.fixture(scope="session")
def triton_toolchain(toolchain: Toolchain) -> Toolchain:
    """With NVIDIA's Triton; skips where it cannot run, as with a Python that it does not know."""
    if TOOLCHAIN_VARIABLE in os.environ:
        return toolchain
    if reason := triton.why_not_here():
        pytest.skip(reason)
    return ensure(print, (workload_tools.TRITON,))


@pytest.fixture(scope="session")
def one_tool() -> Callable[[str], Path]:
    """A single tool by its field of Toolchain, for tests that need no other: those that they do not
    run are not built.
    """

    def get(field: str) -> Path:
        given = os.environ.get(TOOLCHAIN_VARIABLE)
        if given:
            path = getattr(Toolchain.load(Path(given)), field)
            assert isinstance(path, Path)
            return path
        every = (*TOOLS, *workload_tools.TOOLS)
        tools = tuple(tool for tool in every if field in {binary.field for binary in tool.binaries})
        (found,) = obtain(tools, from_environment(os.environ), print)
        return found.paths[field].absolute()

    return get


@pytest.fixture(scope="session")
def go() -> tuple[Sdk, dict[str, str]]:
    """Go, and an environment for it in which nothing that a developer has set for other work
    counts.
    """
    settings: Settings = from_environment(os.environ)
    sdk = go_sdk.ensure(
        settings, Answers(settings.cache / "answers.json"), Cache(settings.cache), print
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GOOS", "GOARCH", "GOEXPERIMENT")
    }
    if sdk.from_wheel:
        environment.pop("GOROOT", None)
    return sdk, environment | {
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


@pytest.fixture(scope="session")
def cross_check(
    go: tuple[Sdk, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """Runs a Go program of tests/infra/cross_check and returns its output; built once a session."""
    sdk, environment = go
    directory = tmp_path_factory.mktemp("cross_check")
    source = Path(__file__).parent / "infra" / "cross_check"
    subprocess.run(
        [sdk.program, "build", "-o", f"{directory}{os.sep}", "./..."],
        cwd=source,
        env=environment,
        check=True,
    )

    def run(program: str, *arguments: Path) -> str:
        return subprocess.run(
            [directory / program, *arguments], check=True, capture_output=True, text=True
        ).stdout

    return run


@pytest.fixture(scope="session")
def kstatus(
    go: tuple[Sdk, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Sequence[Mapping[str, Any]]], list[str]]:
    """What kstatus, as Flux and Pulumi's provider ask it, makes of objects: Current, InProgress,
    Failed, Terminating.
    """
    sdk, environment = go
    program = tmp_path_factory.mktemp("kstatus") / "kstatus"
    subprocess.run(
        [sdk.program, "build", "-o", program, "."],
        cwd=Path(__file__).parent / "fleet_controller" / "kstatus",
        env=environment,
        check=True,
    )

    def run(objects: Sequence[Mapping[str, Any]]) -> list[str]:
        answer = subprocess.run(
            [program], input=json.dumps(objects), check=True, capture_output=True, text=True
        )
        found: list[str] = json.loads(answer.stdout)
        return found

    return run
