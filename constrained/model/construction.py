"""A model made of an engine, here or elsewhere, and of the header of its file."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from constrained.engine.header import TOOL_USE, Header, choose_template, find_sampling
from constrained.model.turn_model import TurnModel
from constrained.prompt.format_selection.generic import CHATML, HARDLY_CALLS
from constrained.prompt.format_selection.selection import read_tool_format
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.wire.format import Format

if TYPE_CHECKING:
    from constrained.engine.protocol import ModelEngine

ModelT = TypeVar("ModelT", bound=TurnModel)
_NO_TEMPLATE = "{name} has no chat template: ChatML and {tool_format} are used. " + HARDLY_CALLS


def read_format(given: str | Format | None) -> Format | None:
    if given is None:
        return None
    return read_tool_format(given)


def make_model(
    engine: "ModelEngine",
    header: Header,
    name: str,
    *,
    notices: Sequence[str],
    chat_template: str | None,
    format: Format | None,
    build: Callable[..., ModelT],
) -> ModelT:
    """Makes the model of an engine; closes the engine if that fails."""
    try:
        sources = _find_templates(header.chat_templates, chosen=chat_template)
        read = partial(ChatTemplate, bos_token=header.bos_text, eos_token=header.eos_text)
        template = read(sources.get("", CHATML), name=name)
        tool_template = None
        if TOOL_USE in sources:
            tool_template = read(sources[TOOL_USE], name=f"{name} ({TOOL_USE})")
        sampling, notes = find_sampling(header.metadata)
        notices = (*notes, *notices)
        if not sources:
            used = "the generic tool format"
            if format is not None:
                used = f"the tool format {format.name}"
            notices = (_NO_TEMPLATE.format(name=name, tool_format=used), *notices)
        model = build(
            engine,
            template,
            tool_template,
            sampling=sampling,
            notices=notices,
            tool_format=format,
        )
        if not sources:
            model.notices = notices  # that ChatML does not write tools is said there already
        return model
    except BaseException:
        engine.close()
        raise


def _find_templates(templates: Mapping[str, str], *, chosen: str | None) -> dict[str, str]:
    """Returns the default template, and the one for tools if it differs; empty if there is none. A
    GGUF file may have several named templates, as Hermes and Command R do."""
    if chosen:
        return {"": chosen}
    if not templates:
        return {}
    with_tools = choose_template(templates)
    default = templates.get("") or with_tools
    found = {"": default}
    if default != with_tools:
        found[TOOL_USE] = with_tools
    return found
