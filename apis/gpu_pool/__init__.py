"""The contents of a GPUPool: its schema, its rollout policy and the requests of people."""
