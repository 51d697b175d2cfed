"""The registry of wire formats: one value a file."""

from grammars.formats.generic import GENERIC
from grammars.formats.hermes import HERMES
from grammars.formats.llama3_json import LLAMA3_JSON
from grammars.formats.mistral import MISTRAL
from grammars.formats.qwen3_coder import QWEN3_CODER

NATIVE = (HERMES, QWEN3_CODER, MISTRAL, LLAMA3_JSON)
"""The formats that models were trained to write."""

FORMATS = (*NATIVE, GENERIC)
