"""Ollama's API: /api/chat, /api/generate, and the paths about models."""
