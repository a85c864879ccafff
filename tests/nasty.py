"""Text with characters that terminals and logs obey, for tests that nothing of it gets out."""

from __future__ import annotations

from hypothesis import strategies as st

C0, C1 = [chr(c) for c in range(0x20)], [chr(c) for c in range(0x80, 0xA0)]
BIDI = [*"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"]
_OTHERS = [*"\x7f\u2028\u2029\u200b\ufeff\ud800"]
OBEYED = frozenset([*C0, *C1, *BIDI, *_OTHERS])
"""Written down here, and taken from nowhere in the product."""

NASTY = "\x1b[2K\rMatch\n\x9b31m\u202e\x7f\u2066\x00"

texts = st.text(
    alphabet=st.one_of(
        st.sampled_from(sorted(OBEYED)), st.characters(), st.sampled_from([*'Aa1 ="\\{}'])
    ),
    max_size=40,
)


def obeyed(text: str) -> set[str]:
    """Those of the characters that are in a text."""
    return set(text) & OBEYED
