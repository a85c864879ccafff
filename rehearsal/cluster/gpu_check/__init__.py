"""`make gpu-check`: compares a real driver with the fake of the same GPU model. Changes nothing.

`reading` reads a GPU, in a process of its own, with whichever library it finds; `questions` is what
it asks beyond what the agent reads; `comparing` finds the differences; `page` formats them.
"""
