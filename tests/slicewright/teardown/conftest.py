"""A stack on EKS and one on GKE in simulated clouds, and their accounts over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewright.doctor.ask.google import session as google_session
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes, fake_nodes
from slicewright.rehearsal.clouds.gcp.account import write_account as write_google_account
from slicewright.rehearsal.clouds.service import Cloud
from slicewright.teardown.subject import Subject
from slicewright.teardown.sweep.aws import AwsAccount
from slicewright.teardown.sweep.google import GoogleProject
from tests.rehearsal.clouds.conftest import Aws, Gcp
from tests.slicewright.served_clouds import served_clouds
from tests.slicewright.teardown.stacks import FakeApi, World, eks_steps, gke_steps


@pytest.fixture
def served(
    clouds_over_http: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    write_account(tmp_path, **PROMPT)
    # Clients try again at once.
    patience = "botocore.retries.standard.ExponentialBackoff.delay_amount"
    monkeypatch.setattr(patience, lambda *_: 0.0)
    monkeypatch.setattr(google_session, "_RETRIES", google_session._RETRIES.new(backoff_factor=0))
    with served_clouds(tmp_path, FakeControlPlanes(tmp_path), monkeypatch) as cloud:
        yield cloud


@pytest.fixture
def aws_of_eks(served: Cloud, tmp_path: Path) -> Aws:
    return Aws(served, tmp_path)


@pytest.fixture
def on_eks(aws_of_eks: Aws, served: Cloud, tmp_path: Path) -> World:
    """Interfaces of nodes that have ended stay until somebody deletes them."""
    aws = aws_of_eks
    aws.make_cluster()
    on = {"clusterLogging": [{"types": ["api"], "enabled": True}]}
    aws.call("eks", "UpdateClusterConfig", name="p4d", logging=on)
    aws.settle("cluster")
    aws.make_group()
    write_account(tmp_path, **{**PROMPT, "leftovers_s": 3600.0})
    return World(
        subject=Subject(cloud="eks", cluster="p4d", location="eu-west-1", existing=False),
        account=AwsAccount("p4d", "eu-west-1", None),
        pulumi=eks_steps(aws),
        api=FakeApi(fake_nodes(tmp_path, "p4d")),
        inventory=served.inventory,
        store=served._store,
    )


@pytest.fixture
def on_gke(served: Cloud, tmp_path: Path) -> World:
    gcp = Gcp(served, tmp_path)
    gcp.make_cluster()
    write_google_account(tmp_path, {"leftovers_s": 3600})
    return World(
        subject=Subject(cloud="gke", cluster="main", location="us-central1", existing=False),
        account=GoogleProject("main", "us-central1", "acme"),
        pulumi=gke_steps(gcp),
        api=FakeApi(fake_nodes(tmp_path, "main")),
        inventory=served.inventory,
        store=served._store,
    )
