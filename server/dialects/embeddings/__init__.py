"""OpenAI's embeddings; Ollama's are in its own package."""
