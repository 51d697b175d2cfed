"""Finds the wire format of a chat template: inferred from what the template renders, or found in
the registry.

Start with `detection`, which has what is returned; then `find`, whose `find_format` takes the
template of `reasoning.probe`, and `inference`. What a prompt only shows is found by `shown`.
"""

from grammars.infer.find import find_format
from grammars.infer.inference import infer

__all__ = ["find_format", "infer"]
