"""Reliable tool calls from local, quantized models."""

import grammars

if getattr(grammars, "PROJECT", None) != "constrained":
    raise ImportError(
        f"`grammars` is not the package that comes with constrained, but {grammars.__file__}: "
        "rename or move that one, or start Python elsewhere"
    )
