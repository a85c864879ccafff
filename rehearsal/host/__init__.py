"""The machine that a rehearsal runs on: its processes, and the tools found or built on it."""
