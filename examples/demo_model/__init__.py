"""A tiny model of the Qwen3 architecture that calls tools: how it is made, and how good it is."""
