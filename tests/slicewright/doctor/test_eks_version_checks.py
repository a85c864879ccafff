"""Versions that EKS does not have are told, with those that it has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.doctor.checks.eks.versions import (
    AddonVersions,
    ClusterVersion,
    Image,
    Releases,
    addon_findings,
    cluster_version,
    image_findings,
    images_needed,
    version_of,
)
from slicewright.doctor.findings import NotAnswered
from slicewright.infra import plan, stack_file
from slicewright.infra.plan import EksFleetPlan

SILENT = NotAnswered(why="the right eks:Something is missing")
STANDARD = ClusterVersion(support="standard", until="2027-03-23", default=False)
DEFAULT = ClusterVersion(support="standard", until=None, default=True)
EXTENDED = ClusterVersion(support="extended", until="2026-12-23", default=False)
CNI = ("v1.21.1-eksbuild.1", "v1.20.4-eksbuild.2")
FITS = AddonVersions(fitting=CNI, default=CNI[0], elsewhere=True)
ANSWERS = {"vpc-cni": FITS, "coredns": FITS, "kube-proxy": FITS}
RELEASE = "1.35.5-20260714"


def fleet_of(*, addons: Any = None, **pool: Any) -> EksFleetPlan:
    cluster = {"name": "c", "region": "us-west-2", "version": "1.35"}
    raw = {
        "cloud": "eks",
        "cluster": {**cluster, **({} if addons is None else {"addons": addons})},
        "node_pools": [
            {"name": "a", "machine_type": "p4d.24xlarge", "nodes": {"count": 1}, **pool}
        ],
    }
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, EksFleetPlan)
    return found


@pytest.mark.parametrize(
    ("versions", "verdict", "said"),
    [
        ({"1.35": STANDARD}, "ok", "offered, in standard support until 2027-03-23"),
        (
            {"1.35": EXTENDED},
            "ok",
            "offered, in extended support until 2026-12-23, which costs more per hour",
        ),
        ({"1.36": STANDARD}, "fails", "not offered"),
        (SILENT, "not asked", "could not be checked: the right eks:Something is missing"),
    ],
)
def test_a_version_is_shown_with_its_support(versions: Any, verdict: str, said: str) -> None:
    (found,) = cluster_version(fleet_of(), versions)
    assert (found.verdict, found.detail) == (verdict, said)


def test_a_cluster_without_a_version_gets_the_default_one() -> None:
    raw = {"cloud": "eks", "cluster": {"name": "c", "region": "us-west-2"}}
    pool = {"name": "a", "machine_type": "p4d.24xlarge", "nodes": {"count": 1}}
    raw |= {"node_pools": [pool]}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, EksFleetPlan)
    assert version_of(fleet, {"1.35": STANDARD, "1.36": DEFAULT}) == "1.36"
    assert version_of(fleet, SILENT) is None
    assert version_of(fleet_of(), {"1.36": DEFAULT}) == "1.35"


def test_addons_without_a_version_are_shown_with_the_default_one() -> None:
    found = list(addon_findings(fleet_of(), "1.35", ANSWERS))
    assert [f.subject.split(" in ")[0] for f in found] == [
        f"add-on {name} of Kubernetes 1.35" for name in ("coredns", "kube-proxy", "vpc-cni")
    ]
    assert {f.detail for f in found} == {f"{CNI[0]}, by default"}


@pytest.mark.parametrize(
    ("version", "answer", "verdict", "said", "remedy"),
    [
        (CNI[1], FITS, "ok", CNI[1], ""),
        (
            "v1.10.0-eksbuild.1",
            FITS,
            "fails",
            "v1.10.0-eksbuild.1 does not support this Kubernetes version",
            f"write {CNI[0]} or {CNI[1]} as cluster.addons.vpc-cni.version",
        ),
        (
            CNI[1],
            AddonVersions(fitting=(), default=None, elsewhere=True),
            "fails",
            "has no version for this Kubernetes",
            "remove cluster.addons.vpc-cni, or write another cluster.version",
        ),
        (
            CNI[1],
            AddonVersions(fitting=(), default=None, elsewhere=False),
            "fails",
            "does not exist",
            "remove cluster.addons.vpc-cni, or write another cluster.version",
        ),
        (CNI[1], SILENT, "not asked", f"could not be checked: {SILENT.why}", ""),
    ],
)
def test_an_addons_version_must_be_one_for_the_clusters_kubernetes(
    version: str,
    answer: AddonVersions | NotAnswered,
    verdict: str,
    said: str,
    remedy: str,
) -> None:
    fleet = fleet_of(addons={"vpc-cni": {"version": version}})
    *_, found = addon_findings(fleet, "1.35", {**ANSWERS, "vpc-cni": answer})
    assert (found.verdict, found.detail, found.remedy) == (verdict, said, remedy)


IMAGE = Image(version="1.35", architecture="x86_64", day="20260714")


def test_only_pools_with_a_release_have_an_image_to_ask_for() -> None:
    assert images_needed(fleet_of()) == {}
    assert images_needed(fleet_of(release_version=RELEASE)) == {"a": IMAGE}


@pytest.mark.parametrize(
    ("answer", "verdict", "said", "remedy"),
    [
        (Releases(exact=RELEASE, newest=RELEASE), "ok", "exists in us-west-2", ""),
        (
            Releases(exact="1.35.4-20260714", newest="1.35.4-20260714"),
            "fails",
            "does not exist; the release of that day is 1.35.4-20260714",
            "write 1.35.4-20260714 as release_version, or remove it",
        ),
        (
            Releases(exact=None, newest="1.35.6-20260801"),
            "fails",
            "does not exist in us-west-2",
            "write 1.35.6-20260801 as release_version, or remove it",
        ),
        (
            Releases(exact=None, newest=None),
            "fails",
            "does not exist in us-west-2",
            "remove release_version",
        ),
        (SILENT, "not asked", f"could not be checked: {SILENT.why}", ""),
    ],
)
def test_a_release_that_does_not_exist_is_reported_with_one_that_does(
    answer: Releases | NotAnswered, verdict: str, said: str, remedy: str
) -> None:
    (found,) = image_findings(fleet_of(release_version=RELEASE), {IMAGE: answer})
    assert (found.verdict, found.detail, found.remedy) == (verdict, said, remedy)
    assert found.subject == f"machine image {RELEASE} (x86_64) of pool a"
