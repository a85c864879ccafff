"""Node pools of all clouds have these parts: labels, taints, offers, rollout and capacity."""
