"""Models from files, from the Hugging Face Hub, and from an open `llama_cpp.Llama`."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from constrained.agent.model import Model
from constrained.decode.kv.snapshots import Cache
from constrained.engine.options import CACHE_RAM, MAX_WAITING, LoadOptions, read_options
from constrained.errors import RequestError
from constrained.limits.isolated_call import refuse_at_import
from constrained.model.construction import make_model, read_format
from constrained.model_files import embedded
from constrained.model_files.local_models import name_file
from constrained.model_files.sources import find_source
from constrained.remote.address import is_address
from grammars.wire.format import Format


def load(
    source: str | os.PathLike[str] | None = None,
    *,
    chat_template: str | None = None,
    tool_format: str | Format | None = None,
    deterministic: bool = False,
    cache_ram: int = CACHE_RAM,
    cache_dir: str | os.PathLike[str] | None = None,
    draft: bool = True,
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
            once; a name that `constrained models` lists, such as `demo` or `ollama:qwen3:8b`, or
            the beginning of one (a file of that name takes precedence); or the address of an engine
            that samples the tokens: `llama-server://`, `vllm://` or `sglang://`, then host and
            port. Default: the environment variable LLAMA_ARG_MODEL, else the demo model at
            temperature 0.
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
        draft: speculative decoding where a turn repeats a text of the prompt (prompt lookup).
            Decoding several tokens rounds differently: of equally likely tokens, another may win.
        max_waiting: maximum number of waiting requests; further ones fail with a `BusyError`.
        tokenizer: for the address of an engine: a GGUF file of the model that it runs, with or
            without weights. A llama-server on this machine names its own.
        api_key: the key of that engine, if it asks for one.
        engine_timeout: how many seconds that engine may be silent. Default: 300.
        token: a token for the Hub. Default: HF_TOKEN, else the saved login.
        offline: do not ask the Hub; use models that are downloaded already.
        progress: called with the part that is downloaded, then with the part that is loaded, from
            0 to 1.
        options: the fields of `EngineOptions`, such as `context_length`, `sequences`, `threads`,
            `gpu_layers` and `lora`.

    Returns:
        The model. `model.notices` has notes, such as options without effect.

    Raises:
        ModelError: the file is missing, damaged or not supported, the download failed, the package
            of the model is not installed, or a LoRA adapter is not for the model.
        TemplateError: the chat template is not valid.
        RequestError: an option has an invalid value, or the model cannot use the tool format.
        RemoteError: an engine cannot be reached, has another vocabulary than the tokenizer, or does
            not enforce grammars.
        TypeError: there is no such option.
    """
    refuse_at_import()
    given = source or os.environ.get("LLAMA_ARG_MODEL")
    if is_address(given):
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
    source = given or embedded.PATH
    path = find_source(source, token=token, offline=offline, progress=progress)
    from constrained.engine.llamacpp import load as load_engine

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
        name_file(path),
        notices=engine.notices,
        chat_template=chat_template,
        format=format,
        build=build,
    )
    if source is embedded.PATH:
        _set_up_demo(model)
    return model


def _set_up_demo(model: Model) -> None:
    model.notices = (embedded.NOTICE, *model.notices)
    model.sampling = replace(model.sampling, temperature=0)


def _refuse_remote_options(*given: object) -> None:
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


def _read_cache(ram: int, folder: str | os.PathLike[str] | None) -> Cache:
    if ram < -1:
        raise RequestError(f"cache_ram is {ram}, must be -1 or more")
    memory = ram << 20
    if ram == -1:
        memory = sys.maxsize
    if folder is not None:
        folder = Path(folder)
    return Cache(memory, folder)
