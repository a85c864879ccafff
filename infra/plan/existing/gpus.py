"""The GPUs of existing nodes and hosts, by the catalog's name of the model or by NVML's product."""

from __future__ import annotations

from slicewright.infra import catalog, stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.plan.findings import CATALOG, Checked, Finding, Stated, listed, refuse, rule


@rule("existing-gpu")
def gpu_of_nodes(
    gpus: stack_file.NodeGpus, path: stack_file.Path, stated: Stated
) -> Checked[Gpu | None]:
    """The GPU of existing nodes. path: of `gpu`."""
    if (gpus.model is None) == (gpus.product is None):
        if stated.has((*path, "model"), (*path, "product")):
            yield refuse(
                path,
                "must have exactly one of model and product",
                "write model: A100-40, or product: NVIDIA A10 as `nvidia-smi -L` prints it",
            )
        return None
    if gpus.model is not None:
        return (yield from gpu_of_model(gpus.model, path, stated, whole_allowed=True))
    return catalog.gpu_of_product(gpus.product or "") if stated.has((*path, "product")) else None


@rule("gpu-model")
def gpu_of_model(
    model: str, path: stack_file.Path, stated: Stated, *, whole_allowed: bool = False
) -> Checked[Gpu | None]:
    """The GPU by the catalog's name. path: of `gpu`.

    whole_allowed: the GPUs may also be given by product, to be used whole.
    """
    gpus = catalog.load().gpus
    if not stated.has((*path, "model")):
        return None
    if model in gpus:
        return gpus[model]
    yield _unknown_model(model, (*path, "model"), whole_allowed=whole_allowed)
    return None


def _unknown_model(model: str, path: stack_file.Path, *, whole_allowed: bool) -> Finding:
    """A finding that suggests another spelling, but never another model."""
    gpus = catalog.load().gpus
    product = catalog.product_of(model) if whole_allowed else None
    whole = f"to use its GPUs whole, write product: {product}" if product else ""
    if exclusion := catalog.load().why_excluded(model):
        similar = f"the catalog has {listed(exclusion.instead)}"
        instead = "; ".join(filter(None, (whole, similar)))
        return refuse(path, f"{model} {exclusion.reason}", instead, exclusion.source)
    meant = [
        gpu.name
        for gpu in gpus.values()
        if any(catalog.same_name(model, name) for name in (gpu.name, *gpu.products))
    ]
    if len(meant) == 1:
        instead = f"did you mean {meant[0]}?"
    elif whole:
        instead = whole
    else:
        instead = f"known: {listed([*gpus])}"
        if whole_allowed:
            instead += "; another GPU can be used whole: write product, as `nvidia-smi -L` has it"
    return refuse(path, f"{model} is not in the catalog", instead, CATALOG)
