"""Decides how far a pool's nodes are verified before they are released."""

from __future__ import annotations

from slicewright.infra import stack_file
from slicewright.infra.plan.model.offers import Offer
from slicewright.infra.plan.model.pools import PoolVerification


def verification_of(offer: Offer, verification: stack_file.Verification) -> PoolVerification:
    """The proofs of a pool. A proof that the stack file wants may be impossible."""
    if not verification.compute:
        return PoolVerification(compute=False, why_listed_only="verification.compute is false")
    if any(shared.strategy == "mps" for shared in offer.sharing):
        # One server serves one user at a time. Source: man nvidia-cuda-mps-control.
        return PoolVerification(
            compute=False,
            why_listed_only="the pool shares its GPUs by MPS, whose server keeps the clients of "
            "other users out while a proof runs",
        )
    return PoolVerification(compute=True)
