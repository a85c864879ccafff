"""A stand-in for vLLM's OpenAI-compatible server: its paths, flags, metrics and start-up, and the
device that its container was given. No model runs; every answer says so.
"""
