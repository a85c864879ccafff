"""`make gpu-check`: what a real driver says, beside what the fake of the same model says. Reads
only.

`reading` asks (in a process of its own, over whichever library it finds), `comparing` finds what
differs, `page` writes it down.
"""
