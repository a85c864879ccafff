"""What a GPUPool may hold: its schema, its rollout policy and the requests of people."""
