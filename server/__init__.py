"""The HTTP server: OpenAI and Anthropic dialects over `constrained`."""
