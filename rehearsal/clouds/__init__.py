"""The simulated clouds: one long-lived process per rehearsal, state on disk, requests judged by the
clouds' own API models.

What is real: the published models every request is validated against, the API servers its clusters
run on. What is simulated: machines, networks, accounts, and the time they take.
"""
