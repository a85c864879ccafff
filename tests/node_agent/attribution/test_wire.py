"""The reader of protobuf's wire format against protobuf's own runtime."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from slicewright.node_agent.attribution import pod_resources
from slicewright.node_agent.attribution.pod_resources import ContainerDevices
from slicewright.node_agent.attribution.wire import NotProtobuf, messages, text, texts
from slicewright.rehearsal.cluster.kubelet.message_tables import classes

# What the reader reads, and nothing else: all other fields are unknown ones to the runtime, too.
READ = classes(
    "v1",
    "read.proto",
    {
        "ListPodResourcesResponse": {"pod_resources": ("PodResources[]", 1)},
        "PodResources": {
            "name": ("string", 1),
            "namespace": ("string", 2),
            "containers": ("ContainerResources[]", 3),
        },
        "ContainerResources": {"name": ("string", 1), "devices": ("ContainerDevices[]", 2)},
        "ContainerDevices": {"resource_name": ("string", 1), "device_ids": ("string[]", 2)},
    },
)
# The same with the rest of what a kubelet sends, and fields that no kubelet has yet.
SENT = classes(
    "v1",
    "sent.proto",
    {
        "ListPodResourcesResponse": {
            "pod_resources": ("PodResources[]", 1),
            "later": ("int64", 900),
        },
        "PodResources": {
            "name": ("string", 1),
            "namespace": ("string", 2),
            "containers": ("ContainerResources[]", 3),
            "later": ("string[]", 17),
        },
        "ContainerResources": {
            "name": ("string", 1),
            "devices": ("ContainerDevices[]", 2),
            "cpu_ids": ("int64[]", 3),
            "memory": ("ContainerMemory[]", 4),
        },
        "ContainerDevices": {
            "resource_name": ("string", 1),
            "device_ids": ("string[]", 2),
            "topology": ("NUMANode[]", 3),
        },
        "ContainerMemory": {"memory_type": ("string", 1), "size": ("uint64", 2)},
        "NUMANode": {"ID": ("int64", 1)},
    },
)
words = st.text(max_size=8)
numbers = st.integers(-(2**63), 2**63 - 1)
devices = st.builds(
    SENT["ContainerDevices"],
    resource_name=words,
    device_ids=st.lists(words, max_size=3),
    topology=st.lists(st.builds(SENT["NUMANode"], ID=numbers), max_size=2),
)
memory = st.builds(SENT["ContainerMemory"], memory_type=words, size=st.integers(0, 2**64 - 1))
containers = st.builds(
    SENT["ContainerResources"],
    name=words,
    devices=st.lists(devices, max_size=3),
    cpu_ids=st.lists(numbers, max_size=3),
    memory=st.lists(memory, max_size=2),
)
pods = st.builds(
    SENT["PodResources"],
    name=words,
    namespace=words,
    containers=st.lists(containers, max_size=3),
    later=st.lists(words, max_size=2),
)
answers = st.builds(
    SENT["ListPodResourcesResponse"], pod_resources=st.lists(pods, max_size=4), later=numbers
)


def by_the_runtime(data: bytes) -> tuple[ContainerDevices, ...]:
    answer: Any = READ["ListPodResourcesResponse"].FromString(data)
    return tuple(
        ContainerDevices(
            namespace=pod.namespace,
            pod=pod.name,
            container=container.name,
            resource=held.resource_name,
            devices=tuple(held.device_ids),
        )
        for pod in answer.pod_resources
        for container in pod.containers
        for held in container.devices
    )


@given(answers)
def test_whatever_the_runtime_writes_is_read_as_the_runtime_reads_it(answer: Any) -> None:
    data = answer.SerializeToString()
    assert pod_resources.parse(data) == by_the_runtime(data)


@given(answers, st.data())
def test_a_broken_answer_is_refused_or_read_as_the_runtime_reads_it(
    answer: Any, data: st.DataObject
) -> None:
    whole = answer.SerializeToString()
    at = data.draw(st.integers(0, len(whole)))
    junk = data.draw(st.binary(max_size=6))
    broken = whole[:at] + junk + whole[at + data.draw(st.integers(0, 4)) :]
    read_like_the_runtime_or_refused(broken)


@given(st.binary(max_size=40))
def test_junk_is_refused_or_read_as_the_runtime_reads_it(junk: bytes) -> None:
    read_like_the_runtime_or_refused(junk)


def read_like_the_runtime_or_refused(data: bytes) -> None:
    try:
        read = pod_resources.parse(data)
    except NotProtobuf:
        return
    try:
        expected = by_the_runtime(data)
    except DecodeError as e:
        raise AssertionError(f"read as {read} what the runtime refuses: {data!r}") from e
    assert read == expected


@given(answers)
def test_an_answer_truncated_inside_a_field_is_refused(answer: Any) -> None:
    data = answer.SerializeToString() + b"\x0a\x05abcd"
    with pytest.raises(NotProtobuf, match="a field of"):
        pod_resources.parse(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00", "no field number at byte 0"),
        (b"\x0a", "no number at byte 1"),
        (b"\x08" + b"\xff" * 10, "no number at byte 1"),
        (b"\x08" + b"\xff" * 9 + b"\x7f", "no number at byte 1"),
        (b"\x0b\x0c", "wire type 3 at byte 0"),
        (b"\x0d\x00\x00", "a field of 5 bytes in a message of 3"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "in a message of 11"),
    ],
)
def test_wire_error_names_the_position(data: bytes, message: str) -> None:
    with pytest.raises(NotProtobuf, match=message):
        list(messages(data, 1))


def test_wire_refuses_bytes_that_are_not_text() -> None:
    with pytest.raises(NotProtobuf, match="field 1 is not UTF-8 text"):
        text(b"\x0a\x01\xff", 1)


def test_an_absent_string_is_empty_and_the_last_of_several_counts() -> None:
    assert text(b"", 1) == ""
    assert text(b"\x0a\x01a\x0a\x01b", 1) == "b"
    assert texts(b"\x0a\x01a\x0a\x01b", 1) == ("a", "b")
