"""Decides whether a node matches its pool's declaration, and gives the reasons."""
