"""The simulated Google Cloud as Google's REST APIs speak: HTTP and JSON.

A request's URL is that of the real API with the rehearsal's address in front of the host:
`http://127.0.0.1:PORT/container.googleapis.com/v1/projects/...`.
"""
