"""The flags and limits of model servers: vLLM and Triton."""
