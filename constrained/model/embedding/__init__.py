"""Texts as vectors, by a model that was made for it.

Start with `embedding_model`; `llama_embedder` is llama.cpp's part of it.
"""

import constrained.engine  # noqa: F401 - sets what OpenMP reads when llama.cpp is imported
