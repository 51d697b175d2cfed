"""Models from files, from the Hugging Face Hub, and from an open `llama_cpp.Llama`."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from constrained import embedded
from constrained.engine.header import TOOL_USE, choose_template
from constrained.engine.options import CACHE_RAM, MOST_WAITING, LoadOptions, read_options
from constrained.errors import ModelError, RequestError
from constrained.format_selection.generic import CHATML
from constrained.format_selection.selection import read_tool_format
from constrained.kv.snapshots import Cache
from constrained.model.model import Model
from constrained.model.packaged import find_packaged, suggest_source
from constrained.template.chat_template import ChatTemplate
from grammars.wire.format import Format

if TYPE_CHECKING:
    from constrained.engine.llamacpp import LlamaEngine

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
        source: a GGUF file; `hf:user/repo[:quant]` for a model of the Hugging Face Hub, downloaded
            once; or the name of a model that a package contains: `demo`, or `smollm2` of the extra
            `real` (a file of that name takes precedence). Default: the environment variable
            LLAMA_ARG_MODEL, else the demo model at temperature 0.
        chat_template: Jinja text to use in place of the chat template of the file.
        tool_format: wire format of calls, in place of the one of the chat template: the name of a
            known format, or a file written by `constrained formats detect --save`. If the template
            does not explain it to the model, the prompt does.
        deterministic: give the same reply to the same request and seed, whatever else runs or was
            cached. Slower, and without drafts.
        cache_ram: MiB of memory for prompts and replies that no longer fit into the KV cache;
            0: none, -1: no limit.
        cache_dir: a folder for the same (at most 8 GiB), which the next process can use. Whoever
            can read the folder can read the prompts. None: no folder.
        draft: speculative decoding where a turn repeats a text of the prompt (prompt lookup). The
            reply is the same.
        max_waiting: maximum number of waiting requests; further ones fail with a `BusyError`.
        token: a token for the Hub. Default: HF_TOKEN, else the saved login.
        offline: do not ask the Hub; use models that are downloaded already.
        progress: called with the part that is downloaded, then with the part that is loaded, from
            0 to 1.
        options: the fields of `EngineOptions`, such as `context_length`, `sequences`, `threads` and
            `gpu_layers`.

    Returns:
        The model. `model.notices` has notes, such as options without effect.

    Raises:
        ModelError: the file is missing, damaged or not supported, the download failed, or the
            package of the model is not installed.
        TemplateError: the chat template is not valid.
        RequestError: an option has an invalid value, or the model cannot use the tool format.
        TypeError: there is no such option.
    """
    from constrained.engine.llamacpp import load as load_engine

    step = read_options(options).batch_size  # what is wrong shows before a download
    cache = _read_cache(cache_ram, cache_dir)
    format = _read_format(tool_format)
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
    model = _make(engine, path.name, chat_template=chat_template, format=format, build=build)
    if source is embedded.PATH:
        model.notices = (embedded.NOTICE, *model.notices)
        model.sampling = replace(model.sampling, temperature=0)
    return model


def from_llama(
    llama: Any, *, chat_template: str | None = None, tool_format: str | Format | None = None
) -> Model:
    """Makes a model of an open `llama_cpp.Llama`.

    Its KV cache is cleared. Do not use the `Llama` for anything else while the model is open, and
    close it yourself afterwards: closing the model leaves it open.

    Args:
        llama: the open `Llama`.
        chat_template: see `load`.
        tool_format: see `load`.

    Returns:
        The model.

    Raises:
        ModelError: the `Llama` is closed, or was opened for embeddings only.
        TemplateError: the chat template is not valid.
        RequestError: the model cannot use the tool format.
    """
    from constrained.engine.llamacpp import borrow

    format = _read_format(tool_format)
    engine = borrow(llama)  # refuses what is no open model
    name = Path(llama.model_path).name
    return _make(engine, name, chat_template=chat_template, format=format)


def _read_format(given: str | Format | None) -> Format | None:
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
    packaged = find_packaged(source)
    if packaged is None and not Path(source).exists():
        hint = suggest_source(str(source))
        raise ModelError(f"{source} cannot be read: No such file or directory", hint=hint)
    return packaged or Path(source)


def _report_part(progress: Callable[[float], None], done: int, whole: int) -> None:
    progress(done / whole if whole else 1.0)


def _make(
    engine: "LlamaEngine",
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
