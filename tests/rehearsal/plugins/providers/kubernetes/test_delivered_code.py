"""The ConfigMap with a zipapp, as the product's program declares it, through the real engine."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

PROGRAM = """
    import io
    import zipfile

    import pulumi
    import pulumi_kubernetes as k8s

    from slicewright.infra import delivery
    from slicewright.infra.components import code_map

    config = pulumi.Config()
    provider = k8s.Provider("cluster", kubeconfig=config.require("kubeconfig"))
    opts = pulumi.ResourceOptions(provider=provider)
    namespace = k8s.core.v1.Namespace("system", metadata={"name": config.require("namespace")},
        opts=opts)

    archive = io.BytesIO()
    level = config.get_int("level")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as written:
        written.writestr(zipfile.ZipInfo("__main__.py", (1980, 1, 1, 0, 0, 0)),
            "print('the delivered code')" * 100, zipfile.ZIP_DEFLATED)


    class Agents(pulumi.ComponentResource):
        def __init__(self):
            super().__init__("test:index:Agents", "agents", {}, opts)
            code = code_map.deliver_code(
                "agents",
                delivery.Zipapp(
                    name="agent.pyz", content=archive.getvalue(), sources_hash="0123456789abcdef"
                ),
                title="node-agent",
                namespace=namespace.metadata["name"],
                opts=pulumi.ResourceOptions(parent=self, provider=provider),
            )
            self.register_outputs({"untouched": code.untouched})

    Agents()
"""
DELIVERED = b"print('the delivered code')" * 100
OTHER = b"print('other code')"


def _archive(*contents: bytes) -> str:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as written:
        for content in contents:
            written.writestr("__main__.py", content)
    return base64.b64encode(packed.getvalue()).decode()


@pytest.fixture
def stack(new_stack: Callable[..., Any], attached: dict[str, str]) -> Any:
    return new_stack(PROGRAM, **attached)


def test_other_code_under_the_same_name_shows_in_a_preview_and_fails_up(
    stack: Any, cluster: Any
) -> None:
    namespace = stack.run("config", "get", "namespace")[1].strip()
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    name = "node-agent-01234567"
    foreign = f"ConfigMap {namespace}/{name} does not hold the code that was delivered"

    def recreate(content: str) -> None:
        cluster.admin.delete(f"{maps}/{name}")
        body = {
            "metadata": {"name": name},
            "immutable": True,
            "binaryData": {"agent.pyz": content},
        }
        cluster.admin.create(maps, body)

    code, output = stack.act("preview")
    assert code == 0, output
    assert "does not hold" not in output
    code, output = stack.act("up")
    assert code == 0, output

    # The bytes of another machine's zlib are no change, nor is what they are read as.
    stack.set("level", "1")
    for verb in ("preview", "up"):
        code, output = stack.act(verb, "--expect-no-changes")
        assert code == 0, output
        assert "does not hold" not in output

    # A re-created ConfigMap with other code: seen without a refresh and with one.
    recreate(_archive(OTHER))
    for flags in ((), ("--refresh",)):
        code, output = stack.act("preview", *flags)
        assert code == 0, output
        assert f"warning: {foreign}" in output, output
        assert "agent.pyz: 1 of its files differ, the first is __main__.py" in output
    code, output = stack.act("up")
    assert code != 0
    assert foreign in output
    assert f"kubectl --namespace {namespace} delete configmap {name}" in output
    assert "Traceback" not in output

    # As `up --refresh` does: it takes the foreign bytes over, and still fails.
    code, output = stack.act("up", "--refresh")
    assert code != 0
    assert foreign in output

    # What the message says to do mends it.
    cluster.admin.delete(f"{maps}/{name}")
    code, output = stack.act("up", "--refresh")
    assert code == 0, output
    mended = base64.b64decode(cluster.admin.get(f"{maps}/{name}")["binaryData"]["agent.pyz"])
    assert zipfile.ZipFile(io.BytesIO(mended)).read("__main__.py") == DELIVERED
    code, output = stack.act("up", "--expect-no-changes")
    assert code == 0, output

    code, output = stack.act("destroy")
    assert code == 0, output
