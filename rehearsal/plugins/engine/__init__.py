"""The engine's plugin protocol: the language host, and what provider plugins are built on."""
