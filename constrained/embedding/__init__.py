"""Texts as vectors, by a model that was made for it.

Start with `embedding_model`; `llama_embedder` is llama.cpp's part of it.
"""
