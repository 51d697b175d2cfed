"""OpenAI's Chat Completions, with the fields of llama-server, vLLM and OpenRouter."""
