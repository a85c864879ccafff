"""The directory of a rehearsal: what is in it, its exports, and which plugins run."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from slicewright.infra import stack_file
from slicewright.rehearsal.clouds.core import access
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import cloud_variables
from slicewright.rehearsal.scenario import environment as environments
from slicewright.rehearsal.scenario.environment import PROJECT, Environment
from slicewright.rehearsal.scenario.errors import RehearsalError, WrongUse


@pytest.fixture
def tools(tmp_path: Path) -> Toolchain:
    """Nothing is started here, so files of the right names will do."""
    names = (
        "pulumi",
        "control_plane",
        "kwok",
        "mig_parted",
        "mig_manager",
        "device_plugin",
        "gpu_feature_discovery",
        "config_manager",
        "mps_control_daemon",
        "gke_device_plugin",
        "fake_nvml",
        "fake_cuda",
    )
    (tmp_path / "tools").mkdir()
    for name in names:
        (tmp_path / "tools" / name).write_text("#!/bin/sh\n")
        (tmp_path / "tools" / name).chmod(0o755)
    return Toolchain(**{name: tmp_path / "tools" / name for name in names})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PULUMI_HOME", raising=False)
    return tmp_path / "home"


@pytest.mark.usefixtures("home")
def test_bases_of_a_stack_file_are_copied_with_it(
    tools: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / "stacks").mkdir(parents=True)
    (project / "shared").mkdir()
    (project / "infra").mkdir()
    (project / "Pulumi.yaml").write_text("name: fleet\n")
    head = "config:\n  slicewright:fleet:\n    "
    for name, fleet in (
        ("stacks/Pulumi.x.yaml", "extends: [base.yaml, ../shared/more.yaml]"),
        ("stacks/Pulumi.broken.yaml", "extends: missing.yaml"),
        ("stacks/base.yaml", "cloud: gke"),
        ("shared/more.yaml", "extends: most.yaml"),
        ("shared/most.yaml", "pod_guard: {}"),
    ):
        (project / name).write_text(f"{head}{fleet}\n")
    monkeypatch.setattr(environments, "PROJECT", project)
    environment = environments.create(tmp_path / "E", tools)
    source = stack_file.read(environment.stack_file("x"))
    assert source.raw == {"cloud": "gke", "pod_guard": {}}
    assert not (environment.project / "shared" / "most.yaml").is_symlink()
    (environment.project / "stacks" / "base.yaml").write_text(f"{head}cloud: eks\n")
    environments.create(tmp_path / "E", tools)
    assert stack_file.read(environment.stack_file("x")).raw["cloud"] == "eks", "not overwritten"
    assert "gke" in (project / "stacks" / "base.yaml").read_text()


@pytest.mark.usefixtures("home")
def test_stand_in_serves_if_no_official_plugin_is_installed(
    tools: Toolchain, tmp_path: Path
) -> None:
    environment = environments.create(tmp_path / "E", tools)
    assert (
        "slicewright.rehearsal.plugins.providers.kubernetes"
        in (environment.root / "bin" / "pulumi-resource-kubernetes").read_text()
    )


def _install_official(home: Path, version: str, package: str = "kubernetes") -> Path:
    name = f"pulumi-resource-{package}"
    official = home / ".pulumi/plugins" / f"resource-{package}-v{version}" / name
    official.parent.mkdir(parents=True)
    official.write_text("official")
    return official


@pytest.mark.parametrize(
    ("installed", "newest"),
    [
        (["4.34.2"], "4.34.2"),
        (["4.9.1", "4.34.2"], "4.34.2"),
        (["4.34.2", "4.34.10"], "4.34.10"),
        (["4.35.0-alpha.1", "4.34.2"], "4.35.0-alpha.1"),
        (["4.35.0-alpha.1", "4.35.0"], "4.35.0"),
        (["4.35.0-alpha.9", "4.35.0-alpha.10"], "4.35.0-alpha.10"),
        (["5.0.0", "4.34.2"], "4.34.2"),
    ],
)
def test_the_newest_installed_official_kubernetes_plugin_takes_its_place(
    tools: Toolchain, tmp_path: Path, home: Path, installed: list[str], newest: str
) -> None:
    paths = {version: _install_official(home, version) for version in installed}
    environment = environments.create(tmp_path / "E", tools)
    assert (environment.root / "bin" / "pulumi-resource-kubernetes").resolve() == paths[newest]
    assert (
        "slicewright.rehearsal.plugins.providers.gcp"
        in (environment.root / "bin" / "pulumi-resource-gcp").read_text()
    )


@pytest.mark.parametrize("asked", [False, True])
def test_official_gcp_and_aws_plugins_run_if_requested(
    tools: Toolchain, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    versions = {"gcp": ["10.9.0", "10.10.0"], "aws": ["7.51.1"]}
    paths = {p: [_install_official(home, v, p) for v in listed] for p, listed in versions.items()}
    if asked:
        monkeypatch.setenv("SLICEWRIGHT_PLUGINS", "official")
    environment = environments.create(tmp_path / "E", tools)
    for package, installed in paths.items():
        command = environment.root / "bin" / f"pulumi-resource-{package}"
        assert (command.resolve() == installed[-1]) is asked


def test_the_official_plugin_can_be_kept_out(
    tools: Toolchain, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_official(home, "4.34.2")
    monkeypatch.setenv("SLICEWRIGHT_KUBERNETES_PLUGIN", "stand-in")
    environment = environments.create(tmp_path / "E", tools)
    assert (
        "slicewright.rehearsal.plugins.providers.kubernetes"
        in (environment.root / "bin" / "pulumi-resource-kubernetes").read_text()
    )


@pytest.mark.usefixtures("home")
def test_another_value_than_stand_in_is_refused(
    tools: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWRIGHT_KUBERNETES_PLUGIN", "standin")
    with pytest.raises(WrongUse, match="it must be 'stand-in'"):
        environments.create(tmp_path / "E", tools)


def test_the_plugins_of_an_exported_rehearsal_are_not_taken_for_official_ones(
    tools: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = environments.create(tmp_path / "E", tools)
    monkeypatch.setenv("PULUMI_HOME", first.variables()["PULUMI_HOME"])
    second = environments.create(tmp_path / "F", tools)
    assert not (second.root / "bin" / "pulumi-resource-kubernetes").is_symlink()


@pytest.mark.usefixtures("home")
def test_the_engine_is_to_use_the_plugins_below_its_home_and_not_those_on_path(
    tools: Toolchain, tmp_path: Path
) -> None:
    """It warns of every plugin that it takes from PATH."""
    environment = environments.create(tmp_path / "E", tools)
    plugins = Path(environment.variables()["PULUMI_HOME"]) / "plugins"
    assert sorted(p.parent.name.rpartition("-v")[0] for p in plugins.glob("*/pulumi-*")) == [
        "language-python",
        "resource-aws",
        "resource-gcp",
        "resource-kubernetes",
    ]
    assert all(p.resolve().exists() for p in plugins.glob("*/pulumi-*"))
    assert environment.variables()["PULUMI_IGNORE_AMBIENT_PLUGINS"] == "true"


@pytest.mark.usefixtures("home")
def test_an_engine_that_brings_a_language_host_takes_the_rehearsals_from_path(
    tools: Toolchain, tmp_path: Path
) -> None:
    tools.pulumi.with_name("pulumi-language-python").write_text("official")
    environment = environments.create(tmp_path / "E", tools)
    assert "PULUMI_IGNORE_AMBIENT_PLUGINS" not in environment.variables()


@pytest.mark.usefixtures("home")
def test_slicewright_itself_is_among_the_commands(tools: Toolchain, tmp_path: Path) -> None:
    environment = environments.create(tmp_path / "E", tools)
    said = subprocess.run(
        [
            "sh",
            "-ec",
            f"{environment.exports()}\ncd '{environment.project}'; slicewright --version",
        ],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    ).stdout
    assert said.startswith("slicewright ")


@pytest.mark.usefixtures("home")
def test_the_exports_are_shell_and_put_the_rehearsals_commands_first(
    tools: Toolchain, tmp_path: Path
) -> None:
    environment = environments.create(tmp_path / "E with a space", tools)
    asked = f"{environment.exports()}\ncommand -v pulumi-resource-gcp; echo $PULUMI_BACKEND_URL"
    told = subprocess.run(
        ["sh", "-ec", asked], capture_output=True, text=True, check=True, env=dict(os.environ)
    ).stdout.split("\n")
    assert told[0] == str(environment.root / "bin" / "pulumi-resource-gcp")
    assert told[1] == f"file://{environment.root}/pulumi/state"
    assert shlex.split(environment.exports().split("\n")[0])[0] == "export"


@pytest.mark.usefixtures("home")
def test_the_program_is_the_checkouts_own_and_the_stack_files_are_copies(
    tools: Toolchain, tmp_path: Path
) -> None:
    environment = environments.create(tmp_path / "E", tools)
    for name in ("Pulumi.yaml", "infra"):
        assert (environment.project / name).resolve() == PROJECT / name
    copy = environment.stack_file("gke-h100")
    assert copy.read_bytes() == (PROJECT / "stacks" / copy.name).read_bytes()
    assert not copy.is_symlink()
    copy.write_text("changed by hand")
    environments.create(tmp_path / "E", tools)
    assert copy.read_text() == "changed by hand", (
        "making an environment again lost what a person wrote"
    )


@pytest.mark.usefixtures("home")
def test_only_its_owner_can_enter_it(tools: Toolchain, tmp_path: Path) -> None:
    environment = environments.create(tmp_path / "E", tools)
    assert environment.root.stat().st_mode & 0o077 == 0
    assert (environment.root / "pulumi" / "passphrase").stat().st_mode & 0o077 == 0


def test_a_directory_that_is_no_environment_is_named(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="is not a rehearsal environment"):
        _ = Environment(tmp_path).toolchain


def test_a_cloud_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="does not answer"):
        Environment(tmp_path).inventory()


@pytest.mark.parametrize(
    ("action", "typed"),
    [
        ("run", "make rehearse STACK=gke-h100 KEEP=1"),
        ("destroy", "make destroy STACK=gke-h100"),
        ("destroy --force", "slicewright rehearse destroy --force --stack gke-h100"),
    ],
)
def test_printed_commands_use_make_in_makes_environments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, action: str, typed: str
) -> None:
    environment = Environment(PROJECT / ".rehearsal" / "gke-h100")
    monkeypatch.chdir(PROJECT)
    assert environment.command(action) == typed
    monkeypatch.chdir(tmp_path)
    assert environment.command(action) == typed.replace("make ", f"make -C {PROJECT} ")


def test_a_rehearsals_shell_and_engine_never_see_a_kubeconfig_of_the_users_own(
    tmp_path: Path, tools: Toolchain
) -> None:
    environment = environments.create(tmp_path / "existing-a100-t4", tools)
    own = str(environment.root / "kubeconfig.json")
    assert environment.variables()["KUBECONFIG"] == own
    assert f"export KUBECONFIG={own}" in environment.exports().splitlines()


def test_users_context_precedes_the_simulated_clouds_in_a_shell(
    tmp_path: Path, tools: Toolchain
) -> None:
    environment = environments.create(tmp_path / "existing-a100-t4", tools)
    person = environment.root / "clusters" / "ours" / "kubeconfig-user.json"
    person.parent.mkdir()
    person.touch()
    assert f"export KUBECONFIG={person}" in environment.exports().splitlines()
    environment.user_kubeconfig.touch()
    assert f"export KUBECONFIG={environment.user_kubeconfig}" in environment.exports().splitlines()


_GOOGLE = ("GOOGLE_", "CLOUDSDK_AUTH_", "CLOUDSDK_API_")


@pytest.mark.usefixtures("home")
def test_clients_of_real_clouds_find_the_simulated_ones_and_no_account_of_the_users(
    tools: Toolchain, tmp_path: Path
) -> None:
    environment = environments.create(tmp_path / "E", tools)
    assert "AWS_ENDPOINT_URL" not in environment.variables()
    found = access.Access(port=20001, credentials=access.new_credentials())
    access.save(environment.root, found)
    users_own = {
        "AWS_PROFILE": "prod",
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SESSION_TOKEN": "secret",
        "AWS_ENDPOINT_URL_EKS": "https://eks.example",
        "AWS_CONFIG_FILE": "/home/user/.aws/config",
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/user/key.json",
        "GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.of-the-user",
        "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT": "admin@prod.iam.gserviceaccount.com",
    }
    told = subprocess.run(
        ["sh", "-ec", f"{environment.exports()}\nenv"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | users_own,
    ).stdout
    aws = dict(line.split("=", 1) for line in told.splitlines() if line.startswith("AWS_"))
    assert aws == {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:20001",
        "AWS_ACCESS_KEY_ID": found.credentials.aws_access_key_id,
        "AWS_SECRET_ACCESS_KEY": found.credentials.aws_secret_access_key,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }

    # Others, such as a machine's own CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE, stay.
    told_of = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    google = {k: v for k, v in told_of.items() if k.startswith(_GOOGLE)}
    token = environment.root / "google-access-token"
    assert google.pop("GOOGLE_OAUTH_ACCESS_TOKEN") == token.read_text()
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert google.pop("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE") == str(token)
    credential_file = environment.root / "google-credentials.json"
    assert google.pop("GOOGLE_APPLICATION_CREDENTIALS") == str(credential_file)
    assert stat.S_IMODE(credential_file.stat().st_mode) == 0o600
    assert {
        name: value.removeprefix("http://127.0.0.1:20001") for name, value in google.items()
    } == {
        "GOOGLE_OAUTH2_CUSTOM_ENDPOINT": "/oauth2.googleapis.com/",
        "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": "/compute.googleapis.com/compute/v1/",
        "GOOGLE_CONTAINER_CUSTOM_ENDPOINT": "/container.googleapis.com/v1/",
        "GOOGLE_IAM_CUSTOM_ENDPOINT": "/iam.googleapis.com/v1/",
        "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT": "/cloudresourcemanager.googleapis.com/v1/",
        "GOOGLE_RESOURCE_MANAGER_V3_CUSTOM_ENDPOINT": "/cloudresourcemanager.googleapis.com/v3/",
        "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT": "/serviceusage.googleapis.com/v1/",
        "GOOGLE_KMS_CUSTOM_ENDPOINT": "/cloudkms.googleapis.com/v1/",
        "GOOGLE_ORG_POLICY_CUSTOM_ENDPOINT": "/orgpolicy.googleapis.com/v2/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_ORGPOLICY": "/orgpolicy.googleapis.com/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS": "/cloudkms.googleapis.com/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": "/compute.googleapis.com/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": "/container.googleapis.com/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": "/iam.googleapis.com/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": (
            "/cloudresourcemanager.googleapis.com/"
        ),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": "/serviceusage.googleapis.com/",
    }


def test_calls_to_the_clouds_go_past_the_users_proxy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python's clients ask a proxy even for a loopback address."""
    found = access.Access(port=20001, credentials=access.new_credentials())
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert "NO_PROXY" not in cloud_variables.of(found, tmp_path)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "intern.example")
    assert cloud_variables.of(found, tmp_path)["NO_PROXY"] == "intern.example,127.0.0.1"
