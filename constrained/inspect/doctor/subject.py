"""The input of the doctor: a chat template, and for a GGUF file also its metadata."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from constrained.engine.files.input_files import begins_with, read_input
from constrained.engine.gguf.contents import (
    VOCABULARY,
    GgufContents,
    join_parts,
    list_parts,
    read_contents,
)
from constrained.engine.header import Header, choose_template, find_templates
from constrained.engine.host import GGUF
from constrained.errors import ModelError, RequestError, TemplateError
from constrained.inspect.doctor.conversations import say
from constrained.inspect.doctor.switches import Switches, find_switches
from constrained.model_files.local_models import name_file
from constrained.prompt.format_selection.selection import SelectedFormat, select_format
from constrained.prompt.format_selection.template_facts import find_facts
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.rendering import DETECTION_SECONDS, limit_renderings
from grammars.wire.format import Reasoning

TEMPLATE_FILE = "chat_template.jinja"  # next to tokenizer_config.json
QUESTION = "PROBE-QUESTION"
_HINT = "Name a GGUF file, a Jinja template, or a tokenizer_config.json"


@dataclass(frozen=True)
class Subject:
    """The model file or template to examine."""

    name: str
    source: str | None  # the text of the chat template; None: there is none
    bos_text: str = ""
    eos_text: str = ""
    templates: tuple[str, ...] = ()  # the names of further templates
    # of a tokenizer_config.json, the text of each added token, and whether it is special; None: not
    # known
    added_tokens: Mapping[str, bool] | None = None
    # of a GGUF file, all parts joined; None: it is another kind of file
    contents: GgufContents | None = None
    # the contents of each part of a GGUF file, by file name
    parts: Mapping[str, GgufContents] = field(default_factory=dict[str, GgufContents])
    # of a GGUF file, as llama.cpp reads it; an error: it cannot read the file
    header: Header | ModelError | None = None

    @cached_property
    def parsed(self) -> ChatTemplate | TemplateError | None:
        """The template; an error if it is not valid Jinja, None if there is none."""
        if self.source is None:
            return None
        tokens = {"bos_token": self.bos_text, "eos_token": self.eos_text}
        try:
            return ChatTemplate(self.source, name=self.name, **tokens)
        except TemplateError as e:
            return e

    @cached_property
    def plain(self) -> str | TemplateError | None:
        """The prompt of a question; an error if the template fails on it, None if there is none."""
        if not isinstance(self.parsed, ChatTemplate):
            return self.parsed
        try:
            return self.parsed.render([say("user", QUESTION)])
        except TemplateError as e:
            return e

    @property
    def template(self) -> ChatTemplate | None:
        """The template; None: it cannot be used."""
        if isinstance(self.parsed, ChatTemplate) and isinstance(self.plain, str):
            return self.parsed
        return None

    @cached_property
    def selected(self) -> SelectedFormat:
        """The wire format that the model gets; a TemplateError if there is no usable template."""
        if self.template is None:
            raise TemplateError("there is no usable chat template")
        return select_format(self.template, special_tokens=self.special)

    @cached_property
    def block(self) -> Reasoning | None:
        """The reasoning block that the template writes or prefills; raises as `selected` does."""
        if self.template is None:
            raise TemplateError("there is no usable chat template")
        with limit_renderings(DETECTION_SECONDS):
            return find_facts(self.template).chat.reasoning

    @cached_property
    def switches(self) -> Switches:
        """The effects of the template's variables; raises as `selected` does."""
        return find_switches(self.selected.template, self.selected.format)

    @property
    def special(self) -> frozenset[str] | None:
        """The texts of the special tokens; None: not known."""
        if isinstance(self.header, Header):
            return frozenset(self.header.vocabulary.named.values())
        return None


def read_subject(path: str) -> Subject:
    """Reads a GGUF file, a Jinja template, or a tokenizer_config.json; a RequestError if it is
    none."""
    try:
        if begins_with(path, GGUF):
            return _read_gguf(Path(path))
        if Path(path).suffix == ".gguf":
            raise RequestError(f"{path} is not a GGUF file, despite its name", hint=_HINT)
        text = read_input(path).decode("utf-8-sig")
    except OSError as e:
        raise RequestError(f"{path} cannot be read: {e.strerror}", hint=_HINT) from e
    except UnicodeDecodeError as e:
        message = f"{path} is neither a GGUF file nor text: {e}"
        raise RequestError(message, hint=_HINT) from e
    if Path(path).suffix == ".json":
        return _read_config(Path(path), text)
    # The real texts are not known: any text shows whether a template writes these tokens.
    return Subject(Path(path).name, text, bos_text="<s>", eos_text="</s>")


def _read_gguf(path: Path) -> Subject:
    parts = {file.name: read_contents(file, VOCABULARY) for file in list_parts(path)}
    contents = join_parts([*parts.values()])
    metadata = {key: value for key, value in contents.metadata.items() if isinstance(value, str)}
    templates = find_templates(metadata)
    is_whole = len(parts) == (contents.number("split.count") or 1)
    header = _read_header(path) if is_whole and not contents.damage else None
    bos, eos = contents.token("bos"), contents.token("eos")
    if isinstance(header, Header):
        bos, eos = header.bos_text, header.eos_text
    return Subject(
        name_file(path),
        _choose_source(templates),
        bos_text=bos,
        eos_text=eos,
        templates=tuple(name or "default" for name in templates),
        contents=contents,
        parts=parts,
        header=header,
    )


def _read_header(path: Path) -> Header | ModelError:
    from constrained.engine.llama_files import read_header

    try:
        return read_header(path)
    except ModelError as e:
        return ModelError(e.message, hint=e.hint)


def _read_config(path: Path, text: str) -> Subject:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise RequestError(f"{path} is not JSON: {e}", hint=_HINT) from e
    if not isinstance(config, dict):
        raise RequestError(f"{path} is not a JSON object", hint=_HINT)
    source, names = _find_source(config.get("chat_template"))
    beside = path.with_name(TEMPLATE_FILE)
    if source is None and beside.is_file():
        source = read_input(beside).decode("utf-8-sig")
    return Subject(
        path.name,
        source,
        bos_text=_read_token(config.get("bos_token")),
        eos_text=_read_token(config.get("eos_token")),
        templates=names,
        added_tokens=_read_added(config.get("added_tokens_decoder")),
    )


def _find_source(value: Any) -> tuple[str | None, tuple[str, ...]]:
    """Returns the template to use, and the names of all: of a text, or of a list of named ones."""
    if isinstance(value, str):
        return value, ()
    named: dict[str, str] = {}
    for item in value if isinstance(value, list) else ():
        match item:
            case {"name": str(name), "template": str(text)}:
                named["" if name == "default" else name] = text
            case _:
                pass
    return _choose_source(named), tuple(name or "default" for name in named)


def _choose_source(templates: Mapping[str, str]) -> str | None:
    try:
        return choose_template(templates)
    except TemplateError:  # there is no default one
        return next(iter(templates.values()), None)


def _read_token(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _read_added(value: Any) -> dict[str, bool] | None:
    if not isinstance(value, dict):
        return None
    added: dict[str, bool] = {}
    for item in value.values():
        if isinstance(item, dict) and isinstance(item.get("content"), str):
            added[item["content"]] = item.get("special") is True
    return added
