"""Finds deviations between program, state, cloud, silicon and GPU operator."""
