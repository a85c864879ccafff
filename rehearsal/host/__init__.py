"""The machine that a rehearsal runs on: its processes, and the tools it finds or builds."""
