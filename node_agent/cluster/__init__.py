"""The agent's own Node, read from the API server."""
