"""What a living cluster says of its pools, and what people ask of their rollouts."""
