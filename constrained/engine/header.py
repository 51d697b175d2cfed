"""The header of a GGUF file: vocabulary, chat templates and recommended sampling; the keys are
those of llama.cpp (`llm_kv`, `llama_model_meta_key`) and gguf-py."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from constrained.engine.protocol import Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import RequestError, TemplateError

TEMPLATE = "tokenizer.chat_template"
TOOL_USE = "tool_use"
SAMPLING = "general.sampling."
FIELDS = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repeat_penalty",
    "penalty_last_n": "penalty_last_n",
}
"""The fields of `Sampling` by key, without the prefix SAMPLING."""
NEUTRAL = {"xtc_probability": 0.0, "mirostat": 0.0}
"""Values of unsupported keys that change nothing."""


@dataclass(frozen=True, eq=False)
class Header:
    """The contents of a model file except its weights. The texts of BOS and EOS (`bos_token` and
    `eos_token` in templates) are "" if there is none; the metadata is without arrays, as text."""

    vocabulary: Vocabulary
    bos_text: str
    eos_text: str
    metadata: Mapping[str, str]

    @cached_property
    def chat_templates(self) -> Mapping[str, str]:
        """The chat templates by name, the default one under ""."""
        return find_templates(self.metadata)


def find_templates(metadata: Mapping[str, str]) -> dict[str, str]:
    """Returns the chat templates of a file by name, as Jinja text; the default one under ""."""
    named = f"{TEMPLATE}."
    templates: dict[str, str] = {}
    if TEMPLATE in metadata:
        templates[""] = metadata[TEMPLATE]
    for key, text in metadata.items():
        if key.startswith(named):
            templates[key.removeprefix(named)] = text
    return templates


def choose_template(templates: Mapping[str, str]) -> str:
    """Chooses the template for requests with tools, as transformers does: `tool_use` or, if there
    is none, the default one. TemplateError: there is neither."""
    for name in (TOOL_USE, ""):
        if name in templates:
            return templates[name]
    if not templates:
        raise TemplateError("the model has no chat template", hint="Name a file that has one")
    hint = f"Available: {', '.join(templates)}"
    raise TemplateError("the model has no default chat template", hint=hint)


def find_sampling(metadata: Mapping[str, str]) -> tuple[Sampling, tuple[str, ...]]:
    """Returns the sampling that a file recommends, and notes about recommendations that are not
    followed: unsupported ones, and values that are not valid."""
    sampling = Sampling()
    notes: list[str] = []
    for key, text in sorted(metadata.items()):  # llama.cpp lists them in no order
        if not key.startswith(SAMPLING):
            continue
        name = key.removeprefix(SAMPLING)
        try:
            if name in FIELDS:
                field = FIELDS[name]
                sampling = replace(sampling, **{field: _read_number(field, text)})
            elif not _is_neutral(name, text):
                notes.append(f"the model recommends {name} {text}, which is not supported")
        except RequestError as e:
            notes.append(f"the model's {key} is left out: {e.message}")
        except ValueError:
            notes.append(f"the model's {key} is left out: {text!r} is not a number")
    return sampling, tuple(notes)


def _is_neutral(name: str, text: str) -> bool:
    """Returns whether an unsupported recommendation changes nothing. ValueError: it is not a
    number."""
    if name == "sequence":  # the order of the samplers
        return False
    number = float(text)
    return number == NEUTRAL.get(name, number)


def _read_number(field: str, text: str) -> float:
    number = float(text)
    if field not in ("top_k", "penalty_last_n") or not number.is_integer():
        return number
    if field == "top_k":
        return max(0, int(number))  # llama.cpp keeps all tokens if it is 0 or negative
    return int(number)
