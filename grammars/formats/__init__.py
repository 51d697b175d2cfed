"""The registry of wire formats: one value a file."""

from grammars.formats.hermes import HERMES
from grammars.formats.qwen3_coder import QWEN3_CODER

FORMATS = (HERMES, QWEN3_CODER)
