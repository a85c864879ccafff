"""No stack, example or pipeline deploys a chart or image under a licence that is not allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.licences.deployments import (
    CHART_REPOSITORIES,
    ENGINES,
    PARTS,
    default_addresses,
    deployed,
    name_of,
    pipeline_images,
)
from tests.licences.table import TABLE, not_allowed

ROOT = Path(__file__).parents[2]


def test_every_chart_that_is_deployed_has_a_permissive_licence_and_its_source() -> None:
    names, _ = deployed()
    assert names == TABLE["charts"].keys()
    assert not_allowed((name, row[0]) for name, row in TABLE["charts"].items()) == []
    assert all(source for _, source in TABLE["charts"].values())


def test_every_image_that_is_deployed_has_an_allowed_licence_and_its_source() -> None:
    _, images = deployed()
    assert images | pipeline_images() == TABLE["images"].keys()
    assert not_allowed_images((name, row[0]) for name, row in TABLE["images"].items()) == []
    assert all(source for _, source in TABLE["images"].values())


def test_every_default_image_and_chart_of_a_stack_file_is_among_those_deployed() -> None:
    """Else the fleets of this test would lack what deploys it."""
    addresses = dict(default_addresses())
    images = {name_of(text) for key, text in addresses.items() if key.endswith(".image")}
    assert len(images) > 1
    assert images <= TABLE["images"].keys()
    repositories = {text for key, text in addresses.items() if key.endswith(".repository")}
    assert len(repositories) > 3
    assert repositories == set(CHART_REPOSITORIES.values())
    charts = CHART_REPOSITORIES.keys() | ENGINES.keys() | set().union(*PARTS.values())
    assert charts == TABLE["charts"].keys()


def test_every_image_of_a_page_has_a_row() -> None:
    """People copy examples; images in registries of their own are theirs."""
    named = {
        name_of(image)
        for page in (ROOT / "docs").rglob("*.md")
        for image in re.findall(r"^\s*image: ([\w./-]+[:@][\w.:@-]+)", page.read_text(), re.M)
    }
    assert len(named) > 1
    theirs = ("registry.example.com/", "123456789012.dkr.ecr.", "europe-west4-docker.pkg.dev/")
    assert {name for name in named if not name.startswith(theirs)} <= TABLE["images"].keys()


def not_allowed_images(table: Iterable[tuple[str, str]]) -> list[str]:
    """As `not_allowed`, but for NVIDIA's own images, each of which is allowed by name."""
    proprietary = "LicenseRef-NVIDIA-container"
    bad = []
    for name, licence in table:
        parts = licence.split(" AND ")
        excepted = name.startswith(tuple(TABLE["nvidia_container_licence"]))
        if excepted and parts[-1] == proprietary:
            parts = parts[:-1]
        bad += not_allowed((name, part) for part in parts)
    return bad


@pytest.mark.parametrize(
    ("image", "licence", "refused"),
    [
        ("nvcr.io/nvidia/gpu-operator", "LicenseRef-NVIDIA-container", False),
        ("docker.io/vllm/vllm-openai", "Apache-2.0 AND LicenseRef-NVIDIA-container", False),
        ("nvcr.io/nvidia/nemo", "LicenseRef-NVIDIA-container", True),
        ("nvcr.io/nvidia/gpu-operator", "AGPL-3.0-only", True),
        ("docker.io/vllm/vllm-openai", "AGPL-3.0-only AND LicenseRef-NVIDIA-container", True),
        ("docker.io/grafana/grafana", "AGPL-3.0-only", True),
        ("docker.io/library/mongo", "SSPL-1.0", True),
    ],
)
def test_nvidias_container_licence_is_allowed_by_name_only(
    image: str, licence: str, refused: bool
) -> None:
    assert bool(not_allowed_images([(image, licence)])) is refused


def test_every_exception_has_a_reason_and_a_use() -> None:
    for prefix, reason in TABLE["nvidia_container_licence"].items():
        assert reason
        assert any(name.startswith(prefix) for name in TABLE["images"]), prefix


def test_no_rendered_chart_has_grafana() -> None:
    names, images = deployed()
    assert not [name for name in (*names, *images) if "grafana" in name]
