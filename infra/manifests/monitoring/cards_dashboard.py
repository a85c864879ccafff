"""The dashboard of cards that an engine shares by fractions."""

from __future__ import annotations

from typing import Final

from slicewright.infra.manifests.monitoring.grafana import Dashboard, Panel, Query, Variable

_POOL: Final = 'pool=~"$pool"'
_POOLS: Final = Variable(name="pool", metric="slicewright_pods_without_share")
_OF_CARDS: Final = "sum by (pool) (slicewright_card_{amount}{{{state}}})"


def _part_of_cards(amount: str) -> str:
    """The allocated part of all cards of a pool."""
    states = (f'{_POOL},state="allocated"', f'{_POOL},state="registered"')
    return " / ".join(_OF_CARDS.format(amount=amount, state=state) for state in states)


SHARED_CARDS: Final = Dashboard(
    uid="slicewright-cards",
    title="slicewright / Shared cards",
    variables=(_POOLS,),
    panels=(
        Panel(
            title="Allocated memory",
            description="The part of the cards' memory that the engine has allocated to pods.",
            queries=(Query(expr=_part_of_cards("memory_bytes"), legend="{{pool}}"),),
            unit="percentunit",
        ),
        Panel(
            title="Allocated compute",
            queries=(Query(expr=_part_of_cards("compute_ratio"), legend="{{pool}}"),),
            unit="percentunit",
        ),
        Panel(
            title="Allocated memory, by card",
            queries=(
                Query(
                    expr=f'slicewright_card_memory_bytes{{{_POOL},state="allocated"}}',
                    legend="{{node}} {{uuid}}",
                ),
            ),
            unit="bytes",
        ),
        Panel(
            title="Allocated compute, by card",
            queries=(
                Query(
                    expr=f'slicewright_card_compute_ratio{{{_POOL},state="allocated"}}',
                    legend="{{node}} {{uuid}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            title="Pods without a share",
            queries=(
                Query(
                    expr=f"max by (pool) (slicewright_pods_without_share{{{_POOL}}})",
                    legend="{{pool}}",
                ),
            ),
        ),
    ),
)
