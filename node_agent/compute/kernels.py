"""The kernels of the proof as PTX, and the word that they write, computed in Python.

Both visit every word of a buffer in a grid-stride loop. `slicewright_put` writes a word that
depends on its index and a seed, `slicewright_check` counts the words that differ from it. PTX 6.0
for sm_70 runs on Volta and later with every driver since R450; a higher version would only exclude
drivers.
Assembled with ptxas 12.9.86 for sm_70, 75, 80, 86, 89, 90, 100, 103, 120 and 121 on 2026-11-28.
"""

from typing import Final

PUT: Final = b"slicewright_put"
CHECK: Final = b"slicewright_check"
WORD_BYTES: Final = 4
_MASK: Final = 0xFFFFFFFF
_MULTIPLIER: Final = 2654435761
"""Knuth's multiplicative hash: neighbouring words differ in many bits."""

_LOOP: Final = """
  ld.param.u64 %rd1, [buffer];
  ld.param.u64 %rd2, [words];
  ld.param.u32 %r1, [seed];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  cvt.u64.u32 %rd5, %r4;
  mad.wide.u32 %rd3, %r2, %r3, %rd5;
  mov.u32 %r2, %nctaid.x;
  mul.wide.u32 %rd4, %r2, %r3;
LOOP:
  setp.ge.u64 %p1, %rd3, %rd2;
  @%p1 bra END;
  mov.b64 {%r5, %r6}, %rd3;
  mad.lo.u32 %r7, %r5, 2654435761, %r6;
  xor.b32 %r7, %r7, %r1;
  shl.b64 %rd5, %rd3, 2;
  add.u64 %rd5, %rd5, %rd1;"""

_NEXT: Final = """
  add.u64 %rd3, %rd3, %rd4;
  bra LOOP;
END:
  ret;
}
"""

_REGISTERS: Final = """{
  .reg .pred %p<3>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<7>;"""

PTX: Final = (
    """.version 6.0
.target sm_70
.address_size 64

.visible .entry slicewright_put(
  .param .u64 buffer, .param .u64 words, .param .u32 seed)
"""
    + _REGISTERS
    + _LOOP
    + """
  st.global.u32 [%rd5], %r7;"""
    + _NEXT
    + """
.visible .entry slicewright_check(
  .param .u64 buffer, .param .u64 words, .param .u32 seed, .param .u64 wrong)
"""
    + _REGISTERS
    + """
  ld.param.u64 %rd6, [wrong];
  cvta.to.global.u64 %rd6, %rd6;"""
    + _LOOP
    + """
  ld.global.u32 %r8, [%rd5];
  setp.ne.u32 %p2, %r8, %r7;
  @%p2 red.global.add.u32 [%rd6], 1;"""
    + _NEXT
).encode()
"""Text of the module with both kernels."""


def word(index: int, seed: int) -> int:
    """The word that the kernels write at `index` and expect there."""
    return ((index & _MASK) * _MULTIPLIER + (index >> 32)) & _MASK ^ seed
