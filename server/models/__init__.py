"""The models of a server: loaded for the first request, unloaded when their memory is needed.

Start with `served_models`; `model_files` reads which there are. `embedding_service` is
the model for embeddings, which is not one of them.
"""
