"""What a stack file says of the stack's secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.stack_file import BACKEND_DEFAULT, PASSPHRASE, secrets_provider, stack_directory

URN = "urn:pulumi:prod::slicewright::pulumi:pulumi:Stack::slicewright-prod"


@pytest.mark.parametrize(
    ("text", "provider"),
    [
        ("secretsprovider: gcpkms://projects/p\nencryptedkey: Cg==\n", "gcpkms://projects/p"),
        ("encryptionsalt: v1:abc=\nconfig: {}\n", PASSPHRASE),
        ("config: {}\n", BACKEND_DEFAULT),
        ("", BACKEND_DEFAULT),
    ],
)
def test_a_stack_file_tells_who_encrypts(tmp_path: Path, text: str, provider: str) -> None:
    (tmp_path / "Pulumi.prod.yaml").write_text(text)
    assert secrets_provider(tmp_path, URN) == provider


def test_encryption_is_unknown_without_a_readable_stack_file(tmp_path: Path) -> None:
    assert secrets_provider(tmp_path, URN) is None
    (tmp_path / "Pulumi.prod.yaml").write_text("secretsprovider: [\n")
    assert secrets_provider(tmp_path, URN) is None


@pytest.mark.parametrize(
    ("text", "directory"),
    [
        ("name: fleet\n", "."),
        ("name: fleet\nstackConfigDir: stacks\n", "stacks"),
        ("name: [\n", "."),
    ],
)
def test_stack_files_lie_in_stack_config_dir_or_beside_pulumi_yaml(
    tmp_path: Path, text: str, directory: str
) -> None:
    assert stack_directory(tmp_path) == tmp_path
    (tmp_path / "Pulumi.yaml").write_text(text)
    assert stack_directory(tmp_path) == tmp_path / directory
