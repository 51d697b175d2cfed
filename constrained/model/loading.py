"""Models from files, from the Hugging Face Hub, and from an open `llama_cpp.Llama`."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from constrained import embedded
from constrained.engine.options import CACHE_RAM, MOST_WAITING, LoadOptions, read_options
from constrained.errors import RequestError
from constrained.kv.snapshots import Cache
from constrained.model.construction import make_model, read_format
from constrained.model.model import Model
from constrained.model.packaged import find_packaged
from constrained.remote.address import is_address
from grammars.wire.format import Format

HUB = "hf:"


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
    tokenizer: str | os.PathLike[str] | None = None,
    api_key: str | None = None,
    token: str | None = None,
    offline: bool = False,
    progress: Callable[[float], None] | None = None,
    **options: Unpack[LoadOptions],
) -> Model:
    """Loads a model.

    Args:
        source: a GGUF file, or `hf:user/repo[:quant]` for one of the Hugging Face Hub, which is
            downloaded once, or the name of a model that a package brings: `demo`, or `smollm2`
            of the extra `real` (a file of that name goes first), or the address of an engine that
            draws the tokens: `llama-server://`, `vllm://` or `sglang://`, then host and port.
            None: what the environment variable LLAMA_ARG_MODEL names, else the demo model, which
            then answers at temperature 0; `notices` of the model say so.
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
        tokenizer: of an engine, a GGUF file of the model that it runs, with or without weights; a
            llama-server on this machine names its own.
        api_key: that an engine asks for.
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
            not one of those that there are, or an engine of its own has it; the folder cannot be
            used.
        RemoteError: an engine cannot be reached, has another vocabulary than the tokenizer, or does
            not enforce grammars.
    """
    given = source or os.environ.get("LLAMA_ARG_MODEL")
    if is_address(given):
        from constrained.model.remote_loading import load_remote

        return load_remote(
            str(given),
            tokenizer,
            api_key,
            chat_template=chat_template,
            tool_format=tool_format,
            deterministic=deterministic,
            cache_dir=cache_dir,
            max_waiting=max_waiting,
            options=options,
        )
    if tokenizer is not None or api_key is not None:
        message = "tokenizer and api_key are for an engine, the model is a file"
        raise RequestError(message, hint="Leave them out, or give the address of an engine")
    from constrained.engine.llamacpp import load as load_engine

    step = read_options(options).batch_size  # what is wrong shows before a download
    cache = _read_cache(cache_ram, cache_dir)
    format = read_format(tool_format)
    source = given or embedded.PATH
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
    model = make_model(
        engine,
        engine.header,
        path.name,
        notices=engine.notices,
        chat_template=chat_template,
        format=format,
        build=build,
    )
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
    return make_model(
        engine,
        engine.header,
        name,
        notices=engine.notices,
        chat_template=chat_template,
        format=format,
    )


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
