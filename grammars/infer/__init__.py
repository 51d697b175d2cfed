"""Which wire format a chat template teaches: read off what it renders, or found in the registry.

Needs `render`, `formats`, `wire`; and `build`, `parse`, `lowering` to try a format out after the
prompt. Start with `detect`, then `inference`.
"""

from grammars.infer.detect import detect
from grammars.infer.inference import infer

__all__ = ["detect", "infer"]
