"""The models of a server: loaded for the first request, unloaded when their memory is needed.

Start with `served_models`; `source` is a model that may be loaded. `embedding_service` is the model
for embeddings, which is not one of them. `shared_store` is what several servers have in common;
`shared_turns` and `shared_marks` say what models keep there.
"""
