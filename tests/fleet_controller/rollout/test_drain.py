from __future__ import annotations

from typing import Any, ClassVar

import pytest

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy
from slicewright.fleet_controller.objects.node_pods import NodePod, driver_tag, read_pod
from slicewright.fleet_controller.rollout.drain import (
    Refusal,
    drain,
    explain_refusal,
    is_refused_by_budget,
    list_pods,
)

BUDGET = {
    "message": "Cannot evict pod as it would violate the pod's disruption budget.",
    "reason": "TooManyRequests",
    "details": {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
            }
        ]
    },
}


def raw(**more: Any) -> dict[str, Any]:
    owner = {"kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": True}
    pod = {
        "metadata": {"namespace": "ai", "name": "a", "uid": "u", "ownerReferences": [owner]},
        "spec": {"containers": [{"resources": {"requests": {"nvidia.com/mig-1g.5gb": "1"}}}]},
    }
    return {key: {**value, **more.get(key, {})} for key, value in pod.items()}


def pod(name: str, **facts: Any) -> NodePod:
    return NodePod(**{"namespace": "ai", "name": name, "uid": name, "gpus": True, **facts})


def test_a_pod_of_a_replica_set_is_read() -> None:
    assert read_pod(raw()) == NodePod(namespace="ai", name="a", uid="u", gpus=True)


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        ({"metadata": {"ownerReferences": []}}, {"controlled": False}),
        ({"metadata": {"ownerReferences": [{"kind": "Node", "uid": "n"}]}}, {"controlled": False}),
        (
            {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "controller": True}]}},
            {"daemon_set": True},
        ),
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}, {"static": True}),
        ({"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}, {"leaving": True}),
        ({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}, {"local_data": True}),
        ({"spec": {"volumes": [{"name": "v", "emptyDir": None}]}}, {"local_data": True}),
        ({"spec": {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}}, {}),
        ({"spec": {"volumes": [{"name": "v", "configMap": {}}]}}, {}),
        ({"metadata": {"labels": {"app": "web", "tier": "x"}}}, {"app": "web"}),
        ({"metadata": {"labels": {"tier": "x"}}}, {}),
        ({"metadata": {"creationTimestamp": "2027-01-15T08:00:00Z"}}, {"created": 1_800_000_000.0}),
        ({"spec": {"nodeName": "n"}}, {"node": "n"}),
    ],
)
def test_what_a_drain_must_know_of_a_pod(more: dict[str, Any], facts: dict[str, Any]) -> None:
    assert read_pod(raw(**more)) == NodePod(
        **{"namespace": "ai", "name": "a", "uid": "u", "gpus": True, **facts}
    )


class TestDriverPods:
    """They bring NVIDIA's driver, and a DaemonSet makes them."""

    LABELS: ClassVar = {"app.kubernetes.io/component": "nvidia-driver"}

    def read(
        self, image: str | None, labels: dict[str, str] = LABELS, kind: str = "DaemonSet"
    ) -> NodePod:
        owner = {"kind": kind, "name": "set", "uid": "s", "controller": True}
        driver = {"name": "nvidia-driver-ctr", "image": image}
        containers = [{"name": "other", "image": "x:1"}, driver, {"name": "last", "image": "x:2"}]
        metadata = {"labels": labels, "ownerReferences": [owner]}
        return read_pod(raw(metadata=metadata, spec={"containers": containers}))

    @pytest.mark.parametrize(
        ("image", "tag"),
        [
            ("nvcr.io/nvidia/driver:580.95.05-ubuntu22.04", "580.95.05-ubuntu22.04"),
            ("mirror:5000/nvidia/driver:580.95.05", "580.95.05"),
            ("driver:580.95.05", "580.95.05"),
        ],
    )
    def test_the_tag_of_the_image_is_the_driver(self, image: str, tag: str) -> None:
        pod = self.read(image)
        assert (pod.driver, pod.owner) == (tag, "set")
        assert pod.next_driver == "", "the pod does not say it"

    @pytest.mark.parametrize(
        "image",
        [
            "mirror:5000/nvidia/driver",
            "nvcr.io/nvidia/driver@sha256:abc",
            "nvcr.io/nvidia/driver:580.95.05@sha256:abc",
            "",
            None,
        ],
    )
    def test_an_image_without_a_tag_or_with_a_digest_says_no_driver(
        self, image: str | None
    ) -> None:
        pod = self.read(image)
        assert (pod.driver, pod.owner) == ("", "")

    def test_driver_pods_are_identified_by_their_label_and_daemon_set(self) -> None:
        image = "nvcr.io/nvidia/driver:580.95.05"
        assert self.read(image, labels={}).driver == ""
        assert self.read(image, labels={"app.kubernetes.io/component": "other"}).driver == ""
        assert self.read(image, kind="ReplicaSet").driver == ""

    def test_a_template_without_the_drivers_container_says_no_driver(self) -> None:
        """Of a DaemonSet that somebody has changed; it is read as its pods are."""
        assert driver_tag({"containers": [{"name": "other", "image": "x:1"}]}) == ""
        assert driver_tag({"containers": None}) == ""
        assert driver_tag({}) == ""


def test_pod_that_is_being_deleted_is_not_evicted_again() -> None:
    found = drain([pod("a", leaving=True)], DrainPolicy(), {}, 0.0)
    assert ([p.name for p in found.must_leave], found.evict, found.protected) == (["a"], (), {})


def test_a_daemon_sets_pod_with_gpus_is_in_the_way_and_one_without_is_not() -> None:
    everything = DrainPolicy(pods="All")
    there = [pod("a", daemon_set=True), pod("b", daemon_set=True, gpus=False)]
    found = drain(there, everything, {}, 0.0, forced=True)
    assert dict(found.protected) == {"ai/a": "belongs to a DaemonSet"}
    assert [p.name for p in found.must_leave] == ["a"]


def test_refused_eviction_is_retried_at_its_time() -> None:
    refused = {"a": Refusal(why="w", retry_at=5.0)}
    early = drain([pod("a"), pod("b")], DrainPolicy(), refused, 4.0)
    assert ([p.name for p in early.evict], early.retry_at) == (["b"], 5.0)
    assert dict(early.refused) == {"ai/a": "w"}
    late = drain([pod("a")], DrainPolicy(), refused, 5.0)
    assert ([p.name for p in late.evict], late.retry_at) == (["a"], None)


def test_three_pods_are_shown() -> None:
    assert list_pods([pod(n) for n in "abcd"]) == "ai/a, ai/b, ai/c and 1 more"
    assert list_pods({"ai/b": "x", "ai/a": "y"}) == "ai/a (y), ai/b (x)"


def test_cause_of_several_pods_is_given_once() -> None:
    """A disruption budget holds all pods of a Deployment, and its text is long."""
    budget = "The disruption budget infer needs 4 healthy pods and has 4 currently"
    held = {f"ai/{name}": budget for name in "abcdef"} | {"ai/g": "a static pod"}
    assert list_pods(held) == f"ai/a, ai/b, ai/c and 3 more ({budget}), ai/g (a static pod)"
    assert list_pods({"ai/b": "x", "ai/a": "x", "ai/c": "y"}) == "ai/a, ai/b (x), ai/c (y)"
    many = {f"ai/{n}": f"cause {n}" for n in "abcde"} | {"ai/f": "cause e"}
    assert list_pods(many) == ("ai/a (cause a), ai/b (cause b), ai/c (cause c) and 3 more")


def test_refused_eviction_names_the_budget() -> None:
    assert explain_refusal(BUDGET, "m") == (
        "The disruption budget web needs 2 healthy pods and has 2 currently"
    )


def test_another_refusal_is_quoted_as_plain_text() -> None:
    """Two budgets for one pod are answered with 500."""
    assert explain_refusal({}, "This pod has more\x1b[2J than one budget.") == (
        "This pod has more\\x1b[2J than one budget"
    )


def test_exactly_as_many_as_are_shown_are_named_without_more() -> None:
    assert list_pods([pod(name) for name in "abc"]) == "ai/a, ai/b, ai/c"
    assert list_pods([pod(name) for name in "abcd"]) == "ai/a, ai/b, ai/c and 1 more"


def test_a_pod_without_owners_has_no_controller() -> None:
    bare = raw()
    del bare["metadata"]["ownerReferences"]
    assert not read_pod(bare).controlled


def test_a_refusal_names_its_budget_within_200_characters_and_without_a_full_stop() -> None:
    other = {"reason": "Other", "message": "another cause"}
    causes = [other, *BUDGET["details"]["causes"]]  # type: ignore[index]
    assert explain_refusal({"details": {"causes": causes}}, "m").startswith(
        "The disruption budget web"
    )
    assert explain_refusal({}, "Cannot evict pod X.") == "Cannot evict pod X"
    assert explain_refusal({}, "x" * 300) == "x" * 200


def test_static_and_daemon_set_pods_stay_if_the_policy_evicts_all_pods() -> None:
    pods = [pod(n, gpus=False, **{n: True}) for n in ("static", "daemon_set")]
    assert drain([*pods, pod("web", gpus=False)], DrainPolicy(pods="All"), {}, 0.0).must_leave == (
        pod("web", gpus=False),
    )


def test_local_data_are_given_up_when_forced_and_not_otherwise() -> None:
    data = pod("a", local_data=True)
    assert drain([data], DrainPolicy(), {}, 0.0).protected == {"ai/a": "has data in an emptyDir"}
    assert drain([data], DrainPolicy(), {}, 0.0, forced=True).evict == (data,)


def test_pods_are_evicted_in_the_order_of_their_names() -> None:
    pods = [pod(name) for name in ("c", "a", "d", "b")]
    assert [p.name for p in drain(pods, DrainPolicy(), {}, 0.0).evict] == ["a", "b", "c", "d"]


def test_what_is_leaving_already_is_kept_by_nothing() -> None:
    gone = pod("a", controlled=False, leaving=True)
    found = drain([gone], DrainPolicy(), {}, 0.0)
    assert (found.must_leave, found.protected, found.evict) == ((gone,), {}, ())


def test_next_retry_is_the_earliest_of_the_refused_evictions() -> None:
    refusals = {name: Refusal(why="w", retry_at=at) for name, at in (("a", 30.0), ("b", 20.0))}
    found = drain([pod("a"), pod("b")], DrainPolicy(), refusals, 10.0)
    assert (found.retry_at, found.evict) == (20.0, ())


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({"details": {"causes": [{"reason": "DisruptionBudget"}]}}, True),
        ({"details": {"causes": [{"reason": "FieldValueInvalid"}]}}, False),
        ({"details": {"retryAfterSeconds": 1}}, False),
        ({}, False),
    ],
)
def test_a_disruption_budget_is_among_the_causes(body: dict[str, Any], refused: bool) -> None:
    assert is_refused_by_budget(body) is refused
