"""The contents of a GPUPool: its schema, its rollout policy and user requests."""
