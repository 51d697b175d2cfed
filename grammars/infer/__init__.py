"""Finds the wire format of a chat template: inferred from what the template renders, or found in
the registry.

Needs `render`, `formats`, `wire`; and `turn_grammar`, `parse`, `lowering` to try a format out after
the prompt. Start with `detection`, which has what is returned: a `Detection` or a `NoFormat`; then
`find`, whose `find_format` takes the template of `reasoning.probe`, and `inference`, which reads
calls (`cutting`), the rest of a turn (`turn`, `content`), makes nodes (`calls`, `arguments`), and
tries them (`slips`, `verify`). What a prompt only shows is found by `shown`.
"""

from grammars.infer.find import find_format
from grammars.infer.inference import infer

__all__ = ["find_format", "infer"]
