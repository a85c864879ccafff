"""Objects as an attacker may write them: a valid object, of which some texts are odd."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from hypothesis import strategies as st

from tests.odd_values import TEXTS, Object, Path, at, paths, replaced

texts = st.sampled_from(sorted(TEXTS)).map(TEXTS.__getitem__)


def text_places(valid: Object, spared: Sequence[Path] = ()) -> list[Path]:
    """Every place of a text, but for those in the fields of `spared`."""
    return [
        path
        for path in paths(valid)
        if isinstance(at(valid, path), str) and not any(path[: len(s)] == s for s in spared)
    ]


@st.composite
def odd_texts(draw: st.DrawFn, valid: Object, spared: Sequence[Path] = ()) -> Object:
    """`valid` with one to three of its texts replaced by others, as the API server would take it.

    spared: fields that the API server sets or validates itself.
    """
    places = text_places(valid, spared)
    changed = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places))
        if isinstance(at(changed, place), str):
            changed = replaced(changed, place, draw(texts))
    return changed
