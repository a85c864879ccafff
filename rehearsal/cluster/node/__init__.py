"""One simulated node: its file system as programs on it see it (`root`), and the start of a program
inside (`launcher`).
"""
