"""Embeddings, in the APIs of OpenAI and llama-server; Ollama's are in its own package."""
