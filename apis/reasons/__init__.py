"""The reason codes of agent and controller, with their meanings and remedies."""
