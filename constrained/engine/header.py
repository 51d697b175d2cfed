"""The header of a GGUF file: vocabulary, chat templates, sampling; all but the weights.

Source of the keys: `llm_kv` and `llama_model_meta_key` of llama.cpp, and gguf-py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from constrained.engine.protocol import Sampling
from constrained.errors import RequestError, TemplateError
from constrained.vocabulary.vocabulary import Vocabulary

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
"""Keys behind SAMPLING, and the fields of `Sampling` that they set."""
NEUTRAL = {"xtc_probability": 0.0, "mirostat": 0.0}
"""Further keys: how to sample is another matter only if these have other values."""


@dataclass(frozen=True, eq=False)
class Header:
    """A model file without its weights.

    Args:
        vocabulary: the tokens.
        bos_text, eos_text: what templates call `bos_token` and `eos_token`; "" if there is none.
        metadata: all values that are no arrays, as text.
    """

    vocabulary: Vocabulary
    bos_text: str
    eos_text: str
    metadata: Mapping[str, str]

    @cached_property
    def chat_templates(self) -> Mapping[str, str]:
        """The chat templates by name, the default one under ""."""
        return find_templates(self.metadata)

    @property
    def sampling(self) -> Sampling:
        """llama-server's defaults, and over them what the file recommends."""
        return self._sampling[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """Recommendations of the file that are not followed, in words for the user."""
        return self._sampling[1]

    @cached_property
    def _sampling(self) -> tuple[Sampling, tuple[str, ...]]:
        return find_sampling(self.metadata)


def find_templates(metadata: Mapping[str, str]) -> dict[str, str]:
    """The chat templates of a file: name -> Jinja text, the default one under ""."""
    named = f"{TEMPLATE}."
    templates: dict[str, str] = {}
    if TEMPLATE in metadata:
        templates[""] = metadata[TEMPLATE]
    for key, text in metadata.items():
        if key.startswith(named):
            templates[key.removeprefix(named)] = text
    return templates


def choose_template(templates: Mapping[str, str], with_tools: bool, name: str | None = None) -> str:
    """The template to use, by the rule of transformers.

    Args:
        templates: name -> Jinja text, the default one under "".
        with_tools: tools are on offer: `tool_use`, if there is one, goes before the default.
        name: of the template; "" and "default" are the default one. None leaves it to the rule.

    Raises:
        TemplateError: there is none of that name, or, by the rule, no default.
    """
    wanted = name or ""
    if name is None and with_tools and TOOL_USE in templates:
        wanted = TOOL_USE
    elif name == "default" and name not in templates:
        wanted = ""
    if wanted in templates:
        return templates[wanted]
    if not templates:
        raise TemplateError("the model has no chat template", hint="Name a file that has one")
    what = f"template {wanted!r}" if wanted else "default chat template"
    known = ", ".join(key or "default" for key in templates)
    raise TemplateError(f"the model has no {what}", hint=f"Available: {known}")


def find_sampling(metadata: Mapping[str, str]) -> tuple[Sampling, tuple[str, ...]]:
    """The sampling that the file recommends, and notes on what of it is not done.

    A value that cannot be read or is out of its range is left out; the others count.
    """
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
    """True if this recommendation changes nothing; raises ValueError if it is no number."""
    if name == "sequence":  # the order of the samplers
        return False
    number = float(text)
    return number == NEUTRAL.get(name, number)


def _read_number(field: str, text: str) -> float:
    number = float(text)
    if field not in ("top_k", "penalty_last_n") or not number.is_integer():
        return number
    if field == "top_k":
        return max(0, int(number))  # llama.cpp takes all tokens below 0 as well as at 0
    return int(number)
