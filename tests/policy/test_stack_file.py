"""What a stack file says of the stack's secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.stack_file import BACKEND_DEFAULT, PASSPHRASE, secrets_provider

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
