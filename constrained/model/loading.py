"""Models from files, from the Hugging Face Hub, and from an open `llama_cpp.Llama`."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Unpack

from constrained import embedded
from constrained.engine.header import TOOL_USE, Header, choose_template
from constrained.engine.options import CACHE_RAM, MOST_WAITING, LoadOptions, read_options
from constrained.engine.protocol import Engine
from constrained.errors import RequestError
from constrained.format_selection.generic import CHATML
from constrained.format_selection.selection import read_tool_format
from constrained.kv.snapshots import Cache
from constrained.model.model import Model
from constrained.model.packaged import find_packaged
from constrained.template.chat_template import ChatTemplate
from grammars.wire.format import Format

HUB = "hf:"
_NO_TEMPLATE = (
    "{name} has no chat template: ChatML and {tool_format} are used "
    "(--chat-template-file names another template)"
)


def load(
    source: str | os.PathLike[str] | None = None,
    *,
    chat_template: str | None = None,
    tool_format: str | Format | None = None,
    deterministic: bool = False,
    cache_ram: int = CACHE_RAM,
    cache_dir: str | os.PathLike[str] | None = None,
    draft: bool = True,
    max_waiting: int = MOST_WAITING,
    token: str | None = None,
    offline: bool = False,
    progress: Callable[[float], None] | None = None,
    **options: Unpack[LoadOptions],
) -> Model:
    """Loads a model.

    Args:
        source: a GGUF file, or `hf:user/repo[:quant]` for one of the Hugging Face Hub, which is
            downloaded once, or the name of a model that a package brings: `demo`, or `smollm2`
            of the extra `real` (a file of that name goes first). None: what the environment
            variable LLAMA_ARG_MODEL names, else the demo model, which then answers at
            temperature 0; `notices` of the model say so.
        chat_template: Jinja text to use in place of those in the file.
        tool_format: how calls are written, in place of what the template teaches: the name of a
            known format, or a file of `formats detect --save`. Where the template does not teach
            it, the prompt does.
        deterministic: the same request with the same seed gives the same reply, whatever else runs
            or was cached. It is slower, and there are no drafts.
        cache_ram: MiB of memory for prompts and replies that others have taken the place of, so
            that they are not computed again; 0: none, -1: without a limit.
        cache_dir: a folder where these are kept too (8 GiB at most) and found by the next process.
            Whoever can read it can read what the prompts said. None: there is none.
        draft: where a turn repeats a text of the prompt, let the model look at several tokens of it
            together, and keep those that it would have written anyway. The reply is the same.
        max_waiting: how many requests may wait; further ones fail with a BusyError.
        token: for the Hub; None for HF_TOKEN or the saved login.
        offline: look for a model of the Hub in the cache alone.
        progress: called with the part downloaded, then the part loaded, 0 to 1.
        options: how the model is run, such as `context_length`, `sequences`, `threads` and
            `gpu_layers`; see `EngineOptions`.

    Raises:
        ModelError: the file is missing, damaged or not supported, the Hub does not give it, or its
            package is not installed.
        TemplateError: its chat template is broken.
        RequestError: the tool format is not known, or cannot be taught to this model; an option is
            not one of those that there are; the folder cannot be used.
    """
    from constrained.engine.llamacpp import load as load_engine

    step = read_options(options).batch_size  # what is wrong shows before a download
    cache = _read_cache(cache_ram, cache_dir)
    format = read_format(tool_format)
    source = source or os.environ.get("LLAMA_ARG_MODEL") or embedded.PATH
    path = _find(source, token=token, offline=offline, progress=progress)
    engine = load_engine(path, progress=progress, **options)
    build = partial(
        Model,
        deterministic=deterministic,
        step=step,
        cache=cache,
        draft=draft,
        max_waiting=max_waiting,
    )
    model = make_model(engine, path.name, chat_template=chat_template, format=format, build=build)
    if source is embedded.PATH:
        model.notices = (embedded.NOTICE, *model.notices)
        model.sampling = replace(model.sampling, temperature=0)
    return model


def from_llama(
    llama: Any, *, chat_template: str | None = None, tool_format: str | Format | None = None
) -> Model:
    """A model on a `llama_cpp.Llama` of the caller, who keeps it open and leaves it alone.

    Its context is emptied. Closing the model leaves it open.

    Raises:
        ModelError: it is closed, or its context serves embeddings alone.
        TemplateError: its chat template is broken.
        RequestError: the tool format is not known, or cannot be taught to this model.
    """
    from constrained.engine.llamacpp import borrow

    format = read_format(tool_format)
    engine = borrow(llama)  # refuses what is no open model
    name = Path(llama.model_path).name
    return make_model(engine, name, chat_template=chat_template, format=format)


def read_format(given: str | Format | None) -> Format | None:
    if given is None:
        return None
    return read_tool_format(given)


def _read_cache(ram: int, folder: str | os.PathLike[str] | None) -> Cache:
    if ram < -1:
        raise RequestError(f"cache_ram is {ram}, must be -1 or more")
    memory = ram << 20
    if ram == -1:
        memory = sys.maxsize
    if folder is not None:
        folder = Path(folder)
    return Cache(memory, folder)


def _find(
    source: str | os.PathLike[str],
    *,
    token: str | None,
    offline: bool,
    progress: Callable[[float], None] | None,
) -> Path:
    if isinstance(source, str) and source.startswith(HUB):
        from constrained.model.hub import fetch

        report = None
        if progress is not None:
            report = partial(_report_part, progress)
        return fetch(source, token=token, offline=offline, progress=report)
    return find_packaged(source) or Path(source)


def _report_part(progress: Callable[[float], None], done: int, whole: int) -> None:
    progress(done / whole if whole else 1.0)


class LoadedEngine(Engine, Protocol):
    """An engine that was read from a file."""

    @property
    def header(self) -> Header: ...

    @property
    def notices(self) -> Sequence[str]: ...


def make_model(
    engine: LoadedEngine,
    name: str,
    *,
    chat_template: str | None,
    format: Format | None,
    build: Callable[..., Model] = Model,
) -> Model:
    """The model of a loaded engine, which is closed if this fails."""
    header = engine.header
    try:
        sources = _find_templates(header.chat_templates, chosen=chat_template)
        read = partial(ChatTemplate, bos_token=header.bos_text, eos_token=header.eos_text)
        template = read(sources.get("", CHATML), name=name)
        tool_template = None
        if TOOL_USE in sources:
            tool_template = read(sources[TOOL_USE], name=f"{name} ({TOOL_USE})")
        notices = (*header.notes, *engine.notices)
        if not sources:
            used = "the generic tool format"
            if format is not None:
                used = f"the tool format {format.name}"
            notices = (_NO_TEMPLATE.format(name=name, tool_format=used), *notices)
        model = build(
            engine,
            template,
            tool_template,
            sampling=header.sampling,
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
    """The default template, and that for tools if it is another one; empty if there is none.

    A GGUF file may have several under names of their own, as Hermes and Command R do; the one that
    the user has chosen goes before all of them.

    Raises:
        TemplateError: there are some, but none that can be used.
    """
    if chosen:
        return {"": chosen}
    if not templates:
        return {}
    with_tools = choose_template(templates, with_tools=True)
    default = templates.get("") or with_tools
    found = {"": default}
    if default != with_tools:
        found[TOOL_USE] = with_tools
    return found
