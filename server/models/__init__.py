"""The models of a server: loaded for the first request, unloaded when their memory is needed.

Start with `served_models`; `source` is a model that may be loaded. `shared_store` is what several
servers have in common; `shared_values` says what models keep there.
"""
