"""Engines: they decode the tokens of several sequences and sample the next ones.

Needs `vocabulary`. Start with `protocol`, their interface. `llamacpp` runs GGUF models, `scripted`
needs no model.
"""
