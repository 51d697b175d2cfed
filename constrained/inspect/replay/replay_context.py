"""The context of a recorded turn: its wire format, template and vocabulary, read from its row."""

import os
import reprlib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, TypeVar

from constrained.engine.files.input_files import read_input
from constrained.engine.header import choose_template
from constrained.engine.vocabulary.vocabulary import (
    Tokenizer,
    Vocabulary,
    build_tokenizer,
    byte_vocabulary,
)
from constrained.errors import RequestError, TemplateError
from constrained.mask.matcher import Matcher
from constrained.model_files.sources import find_source
from constrained.prompt.format_selection.generic import CHATML
from constrained.prompt.format_selection.kwargs_selection import FormatByKwargs
from constrained.prompt.format_selection.selection import (
    SelectedFormat,
    read_tool_format,
    select_format,
)
from constrained.prompt.template.chat_template import ChatTemplate, check_kwargs
from grammars.errors import DetectError, Error
from grammars.infer.reasoning import find_state
from grammars.turn import Policy, State
from grammars.wire.format import Format, find_named
from grammars.wire.formats import FORMATS

T = TypeVar("T")
_TYPE_NAMES = {str: "a string", bool: "true or false", dict: "an object"}
_DEFAULT_MESSAGES = [{"role": "user", "content": "Hello"}]


@dataclass(frozen=True)
class ReplayContext:
    """The format, template and vocabulary that a recorded turn is checked with."""

    # the template of the prompt, and the format that it teaches; None: the row only names a format
    selected: SelectedFormat | None
    format: Format
    vocabulary: Vocabulary
    tokenizer: Tokenizer
    ends: tuple[str, ...]  # the texts that end a turn

    @property
    def template(self) -> ChatTemplate | None:
        return None if self.selected is None else self.selected.template

    @property
    def ids(self) -> dict[str, int]:
        """The token ids of the format's markers and other texts, by their text."""
        return self.vocabulary.find_markers(self.format.texts)

    def encode(self, text: str) -> list[int]:
        """Tokenizes the text; the text of a marker that is one token becomes that token."""
        return self.vocabulary.encode_marked(text, self.ids)

    def guard_text(
        self, policy: Policy, row: Mapping[str, Any], *, has_tools: bool
    ) -> tuple[Format, Policy]:
        """As `SelectedFormat.guard_text`; unchanged if the row only names a format."""
        if self.selected is None:
            return self.format, policy
        messages = row.get("messages") or ()
        return self.selected.guard_text(policy, messages, has_tools=has_tools)

    def find_state(self, row: Mapping[str, Any], tools: list[Any]) -> State:
        """Returns the start state after the prompt of this row; a TemplateError if the template
        refuses it."""
        kwargs = read_field(row, "chat_template_kwargs", default=dict[str, Any]())
        check_kwargs(kwargs)
        if self.template is None:
            return State()
        messages = row.get("messages")
        if messages is None or messages == []:
            messages = _DEFAULT_MESSAGES
        opened = self.template.render(messages, tools, add_generation_prompt=True, **kwargs)
        plain = self.template.render(messages, tools, add_generation_prompt=False, **kwargs)
        # Recorded turns may number their calls in any way.
        return replace(find_state(opened, plain, self.format), calls=None)


def read_field(row: Mapping[str, Any], name: str, *, default: T) -> T:
    """Returns a field of a row, checked for its type; the default if it is missing or null."""
    value = row.get(name)
    if value is None:
        return default
    if not isinstance(value, type(default)):
        message = f"{name} must be {_TYPE_NAMES[type(default)]}"
        raise RequestError(message, where=f"/{name}")
    return value


def read_option(row: Mapping[str, Any], name: str, options: Sequence[str]) -> str:
    """Returns a field of a row, one of the options; the first if it is missing or null."""
    value = row.get(name)
    if value is None:
        return options[0]
    if value not in options:
        raise RequestError(f"{name} must be {' or '.join(options)}", where=f"/{name}")
    return value


def read_context(row: Mapping[str, Any]) -> ReplayContext:
    """Returns the context that a row names with `model`, `template` or `format`.

    Raises:
        RequestError: a field is of the wrong type, or the row names nothing that is known.
        ModelError, TemplateError, DetectError: the model or the template cannot be used.
    """
    model = read_field(row, "model", default="")
    source = read_field(row, "template", default="")
    chosen = read_field(row, "tool_format", default="")
    if model:
        return _read_model(model, _read_source(source), chosen)
    markers = read_option(row, "markers", ("text", "token"))
    selected = None
    if row.get("template") is not None:
        bos = read_field(row, "bos_token", default="<s>")
        eos = read_field(row, "eos_token", default="</s>")
        selected = _read_template(
            _read_source(source),
            bos=bos,
            eos=eos,
            chosen=chosen,
            special_tokens=_read_special_tokens(row),
        ).find(read_field(row, "chat_template_kwargs", default=dict[str, Any]()))
        format = selected.format
    elif chosen:
        hint = "Leave it out, or name a template or a model instead of the format"
        raise RequestError("nothing to teach it to", where="/tool_format", hint=hint)
    else:
        format = _find_format(read_field(row, "format", default=""))
    vocabulary, tokenizer = byte_tokenizer(format.atoms if markers == "token" else ())
    return ReplayContext(
        selected, format, vocabulary=vocabulary, tokenizer=tokenizer, ends=format.ends
    )


def _read_special_tokens(row: Mapping[str, Any]) -> frozenset[str] | None:
    given = row.get("special_tokens")
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        message = "special_tokens must be a list of texts"
        hint = "Write the texts of the model's special tokens"
        raise RequestError(message, where="/special_tokens", hint=hint)
    return frozenset(given)


def _find_format(name: str) -> Format:
    format = find_named(name, FORMATS)
    if format is None:
        hint = f"Known: {', '.join(known.name for known in FORMATS)}"
        message = f"unknown format {name!r}" if name else "the row names no template or format"
        raise RequestError(message, where="/format", hint=hint)
    return format


def _read_source(source: str) -> str:
    """Reads a template from its path, if there is such a file; otherwise the text is the
    template."""
    try:
        if source and os.path.isfile(source):
            return read_input(source).decode("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise RequestError(f"{source} cannot be read: {e}", where="/template") from e
    if source and "{" not in source and "\n" not in source:
        hint = "Give the path of a template, or the template itself"
        raise RequestError(f"no template {reprlib.repr(source)}", where="/template", hint=hint)
    return source


def _read_template(
    source: str,
    *,
    bos: str,
    eos: str,
    chosen: str,
    special_tokens: frozenset[str] | None,
) -> FormatByKwargs:
    read = _try_template(source, bos=bos, eos=eos, chosen=chosen, special_tokens=special_tokens)
    if isinstance(read, FormatByKwargs):
        return read
    raise copy(read)  # each raise needs a traceback of its own


@lru_cache(maxsize=64)
def _try_template(
    source: str, *, bos: str, eos: str, chosen: str, special_tokens: frozenset[str] | None
) -> FormatByKwargs | Error:
    """Like `_read_template`, but returns errors, so that they are cached, too."""
    try:
        template = ChatTemplate(source, bos_token=bos, eos_token=eos)
        format = read_tool_format(chosen) if chosen else None
        select = partial(select_format, chosen=format, special_tokens=special_tokens)
        return FormatByKwargs(template, select)
    except (RequestError, TemplateError, DetectError) as e:
        return copy(e)  # without its traceback, which would keep frames and their objects alive


@lru_cache(maxsize=64)
def byte_tokenizer(markers: tuple[str, ...]) -> tuple[Vocabulary, Tokenizer]:
    """Returns the vocabulary of bytes, with these markers as single tokens, and its tokenizer."""
    vocabulary = byte_vocabulary(markers)
    return vocabulary, build_tokenizer(vocabulary, markers)


@lru_cache(maxsize=4)
def _read_model(path: str, source: str, chosen: str) -> ReplayContext:
    """Reads the vocabulary of a GGUF file, and its template unless `source` is another one."""
    from constrained.engine.llama_files import read_header

    header = read_header(find_source(path))
    if not source and header.chat_templates:
        source = choose_template(header.chat_templates)
    vocabulary = header.vocabulary
    selected = _read_template(
        source or CHATML,
        bos=header.bos_text,
        eos=header.eos_text,
        chosen=chosen,
        special_tokens=frozenset(vocabulary.named.values()),
    ).default
    # A GGUF file often has more end tokens than its template writes; recorded turns may have any of
    # them.
    names = [vocabulary.names[token] for token in vocabulary.end if token in vocabulary.names]
    format = selected.format
    return ReplayContext(
        selected,
        format,
        vocabulary=vocabulary,
        tokenizer=build_tokenizer(vocabulary, vocabulary.find_markers(format.texts)),
        ends=tuple(dict.fromkeys([*format.ends, *names])),
    )


def commit_accepted(matcher: Matcher, tokens: list[int]) -> tuple[int, bool]:
    """Commits the tokens that a matcher accepts.

    Returns:
        Their number, and whether these are all and the text may end.
    """
    count = matcher.count_accepted(tokens)
    matcher.try_commit(tokens[:count])
    return count, count == len(tokens) and matcher.is_complete
