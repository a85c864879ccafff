"""Pulumi's output as `make rehearse` shows it."""

from __future__ import annotations

from slicewright.rehearsal.scenario.engine_output import OutputFilter

STACK = "  pulumi:pulumi:Stack (slicewright-gke-h100):"
ON_PATH = "    warning: using pulumi-resource-gcp from $PATH at /tmp/bin/pulumi-resource-gcp"


def _shown(*lines: str) -> list[str]:
    shown = OutputFilter()
    return [told for line in lines for told in shown.of(line)]


def test_headings_under_which_only_noise_stands_are_not_shown() -> None:
    assert _shown("Diagnostics:", STACK, ON_PATH, "", "Resources:", "    + 33 created") == [
        "Resources:",
        "    + 33 created",
    ]


def test_headings_are_printed_once_with_their_lines() -> None:
    pool, why = (
        "  kubernetes:slicewright.io/v1alpha1:GPUPool (gpu-pool-a):",
        "    error: GPU 0 wanted 3g.40gb x2, found 1g.10gb x7",
    )
    lines = (
        "Diagnostics:",
        STACK,
        ON_PATH,
        "    warning: ours",
        "    warning: and another",
        pool,
        why,
        "Resources:",
    )
    assert _shown(*lines) == [
        "Diagnostics:",
        STACK,
        "    warning: ours",
        "    warning: and another",
        pool,
        why,
        "Resources:",
    ]


def test_a_resource_whose_diagnostics_are_noise_is_left_out_and_the_next_one_is_not() -> None:
    pool, why = (
        "  kubernetes:slicewright.io/v1alpha1:GPUPool (gpu-pool-a):",
        "    error: not proven",
    )
    assert _shown("Diagnostics:", STACK, ON_PATH, pool, why) == ["Diagnostics:", pool, why]


def test_a_step_is_shown_when_it_has_ended_or_went_wrong() -> None:
    began = " +  gcp:container:Cluster gke creating (1s) waiting for operation"
    wrong = " +  kubernetes:apps/v1:Deployment fleet-controller creating (9s) warning: no pods"
    ended = " +  gcp:container:Cluster gke created (6s)"
    assert _shown("@ updating....", began, wrong, ended) == [wrong, ended]


def test_a_count_of_warnings_that_are_not_shown_is_not_shown() -> None:
    assert _shown(" +  pulumi:pulumi:Stack slicewright-gke-h100 created (9s) 3 warnings") == [
        " +  pulumi:pulumi:Stack slicewright-gke-h100 created (9s)"
    ]


def test_a_pool_in_its_first_second_is_no_news_and_one_that_fails_is() -> None:
    pool = " +  kubernetes:slicewright.io/v1alpha1:GPUPool gpu-pool-a creating (0s) warning:"
    failing = f"{pool} WrongLayout: node n1: GPU 3 wanted 3g.40gb x2, found 1g.10gb x7"
    assert _shown(f"{pool} Has no .status.conditions", failing) == [failing]


def test_an_error_outside_of_diagnostics_is_shown() -> None:
    assert _shown("error: no stack named 'x' found") == ["error: no stack named 'x' found"]
