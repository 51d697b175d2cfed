"""Models from files, from the Hugging Face Hub, and from an open `llama_cpp.Llama`."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from constrained.agent.model import Model
from constrained.decode.drafts.draft_options import DraftOptions
from constrained.decode.kv.snapshots import Cache
from constrained.engine.model_files import embedded
from constrained.engine.model_files.packaged import find_file
from constrained.engine.model_files.sources import find_source
from constrained.engine.options import CACHE_RAM, MAX_WAITING, LoadOptions, read_options
from constrained.errors import RequestError
from constrained.limits.isolated_call import refuse_at_import
from constrained.model.construction import make_model, read_format
from constrained.remote.address import is_address
from grammars.wire.format import Format

if TYPE_CHECKING:
    from constrained.decode.drafts.draft_model import DraftModel
    from constrained.engine.llamacpp import LlamaEngine


def load(
    source: str | os.PathLike[str] | None = None,
    *,
    chat_template: str | None = None,
    tool_format: str | Format | None = None,
    deterministic: bool = False,
    cache_ram: int = CACHE_RAM,
    cache_dir: str | os.PathLike[str] | None = None,
    draft: bool = True,
    draft_model: str | os.PathLike[str] | DraftOptions | None = None,
    max_waiting: int = MAX_WAITING,
    tokenizer: str | os.PathLike[str] | None = None,
    api_key: str | None = None,
    engine_timeout: float | None = None,
    token: str | None = None,
    offline: bool = False,
    progress: Callable[[float], None] | None = None,
    **options: Unpack[LoadOptions],
) -> Model:
    """Loads a model.

    Args:
        source: a GGUF file; `hf:user/repo[:quant]` for a model of the Hugging Face Hub, downloaded
            once; or the name of a model that a package contains: `demo`, or `smollm2` of the extra
            `real` (a file of that name takes precedence); or the address of an engine that samples
            the tokens: `llama-server://`, `vllm://` or `sglang://`, then host and port. Default:
            the environment variable LLAMA_ARG_MODEL, else the demo model at temperature 0.
        chat_template: Jinja text to use in place of the chat template of the file.
        tool_format: wire format of calls, in place of the one of the chat template: the name of a
            known format, or a file written by `constrained formats detect --save`. If the template
            does not explain it to the model, the prompt does.
        deterministic: give the same reply to the same request and seed, independently of other
            requests and of caches. Slower, and without drafts.
        cache_ram: MiB of memory for prompts and replies that no longer fit into the KV cache;
            0: none, -1: no limit.
        cache_dir: a folder for the same (at most 8 GiB), which the next process can use. Everyone
            who can read the folder can read the prompts. None: no folder.
        draft: speculative decoding where a turn repeats a text of the prompt (prompt lookup). The
            reply is the same.
        draft_model: a GGUF file of a small model of the same vocabulary. It drafts the texts that
            repeat nothing, and the model verifies several tokens at once; the reply is the same.
            See `DraftOptions`.
        max_waiting: maximum number of waiting requests; further ones fail with a `BusyError`.
        tokenizer: for the address of an engine: a GGUF file of the model that it runs, with or
            without weights. A llama-server on this machine names its own.
        api_key: the key of that engine, if it asks for one.
        engine_timeout: how many seconds that engine may be silent. Default: 300.
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
        RemoteError: an engine cannot be reached, has another vocabulary than the tokenizer, or does
            not enforce grammars.
        TypeError: there is no such option.
    """
    refuse_at_import()
    given = source or os.environ.get("LLAMA_ARG_MODEL")
    if is_address(given):
        _refuse_draft_model(draft_model)
        from constrained.remote.loading import load_remote

        return load_remote(
            Model,
            str(given),
            tokenizer,
            api_key,
            engine_timeout=engine_timeout,
            chat_template=chat_template,
            tool_format=tool_format,
            deterministic=deterministic,
            cache_dir=cache_dir,
            max_waiting=max_waiting,
            options=options,
        )
    _refuse_remote_options(tokenizer, api_key, engine_timeout)
    step = read_options(options).batch_size  # checks the options before a download
    cache = _read_cache(cache_ram, cache_dir)
    format = read_format(tool_format)
    drafts = _read_drafts(draft_model, draft=draft, deterministic=deterministic)
    source = given or embedded.PATH
    path = find_source(source, token=token, offline=offline, progress=progress)
    engine, drafting = _load_engines(path, drafts, options, progress=progress)
    build = partial(
        Model,
        draft_model=drafting,
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
        _set_up_demo(model)
    return model


def _set_up_demo(model: Model) -> None:
    """Makes the demo model greedy by default, with a notice that it is only a demo."""
    model.notices = (embedded.NOTICE, *model.notices)
    model.sampling = replace(model.sampling, temperature=0)


def _refuse_draft_model(draft_model: object) -> None:
    """Raises RequestError if a draft model is given for a remote engine."""
    if draft_model is not None:
        message = "an engine elsewhere cannot have a draft model here"
        hint = "Give that engine the draft model, and leave it out here"
        raise RequestError(message, where="/draft_model", hint=hint)


def _refuse_remote_options(*given: object) -> None:
    """Raises RequestError if an option of remote engines is given for a file."""
    if any(option is not None for option in given):
        message = "tokenizer, api_key and engine_timeout are for an engine, but the model is a file"
        raise RequestError(message, hint="Leave them out, or give the address of an engine")


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

    format = read_format(tool_format)
    engine = borrow(llama)  # raises ModelError if it is not an open model
    name = Path(llama.model_path).name
    return make_model(
        engine,
        engine.header,
        name,
        notices=engine.notices,
        chat_template=chat_template,
        format=format,
        build=Model,
    )


def _read_drafts(
    given: str | os.PathLike[str] | DraftOptions | None, *, draft: bool, deterministic: bool
) -> DraftOptions | None:
    """Reads the options of a draft model; None: there is none."""
    if given is None:
        return None
    if deterministic or not draft:
        message = "a draft model is given, but drafts are off"
        hint = "Leave out deterministic=True and draft=False (--deterministic, --no-draft)"
        raise RequestError(message, where="/draft_model", hint=hint)
    if isinstance(given, DraftOptions):
        return given
    return DraftOptions(given)


def _load_engines(
    path: Path,
    drafts: DraftOptions | None,
    options: LoadOptions,
    *,
    progress: Callable[[float], None] | None,
) -> "tuple[LlamaEngine, DraftModel | None]":
    """Loads the engine of the model, and the draft model if there is one."""
    from constrained.engine.llamacpp import load as load_engine

    engine = load_engine(path, progress=progress, **options)
    try:
        return engine, _load_draft_model(engine, drafts, options)
    except BaseException:
        engine.close()
        raise


def _load_draft_model(
    engine: "LlamaEngine", drafts: DraftOptions | None, options: LoadOptions
) -> "DraftModel | None":
    """Loads the draft model, with as many sequences as the engine, of the same length."""
    if drafts is None:
        return None
    from constrained.decode.drafts.draft_model import DraftModel
    from constrained.engine.llamacpp import load as load_engine

    of_draft = LoadOptions(**options)
    of_draft["context_length"] = engine.context_length
    of_draft["sequences"] = engine.max_sequences
    of_draft["gpu_layers"] = drafts.gpu_layers
    of_draft["tensor_split"] = ()
    small = load_engine(find_file(drafts.path), **of_draft)
    try:
        made = DraftModel(small, engine.vocabulary, drafts)
    except BaseException:
        small.close()
        raise
    engine.memory_bytes += small.memory_bytes  # both models are closed together
    return made


def _read_cache(ram: int, folder: str | os.PathLike[str] | None) -> Cache:
    if ram < -1:
        raise RequestError(f"cache_ram is {ram}, must be -1 or more")
    memory = ram << 20
    if ram == -1:
        memory = sys.maxsize
    if folder is not None:
        folder = Path(folder)
    return Cache(memory, folder)
