"""The engine: decodes tokens of several sequences and draws the next ones, behind one protocol.

Needs `vocabulary`. Start with `protocol`; `llamacpp` runs GGUF models, `scripted` runs none.
"""
