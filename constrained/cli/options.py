"""Options that several commands share, in llama-server's spelling where it has them.

The defaults of model options are llama-server's LLAMA_ARG_* variables. They are read when the
command runs, so a wrong one does not affect commands that do not use it.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from constrained.cli.configuration import (
    MODEL,
    Parsed,
    ParsedCommand,
    find_rivals,
)
from constrained.cli.terminal.input import read_json, read_text
from constrained.cli.terminal.output import show_progress
from constrained.engine.options import CACHE_RAM, CacheType, EngineOptions, LoadOptions, SplitMode
from constrained.engine.sampling import Sampling
from constrained.errors import RequestError
from constrained.prompt.job import Recall
from constrained.remote.address import is_address
from grammars.turn import KeyOrder, Think

LOCAL_HOST = "127.0.0.1"
PORT = 8080
MAX_MODELS = 4
"""The number of models that `serve` keeps loaded: llama-server's default."""
CHOICES = ("auto", "none", "required")
THINKING = {"on": Think.REQUIRED, "off": Think.FORBIDDEN, "auto": Think.OPTIONAL}
SWITCH = {"on": True, "off": False, "auto": None}
# Both mean all layers: llama.cpp as a library does not fit their number to the GPU's memory.
LAYERS = {"auto": -1, "all": -1}


def read_switch(text: str) -> bool | None:
    """Reads on, off or auto; raises KeyError for other words."""
    return SWITCH[text]


def read_flag(text: str) -> bool:
    """Reads a flag as llama-server does: unknown words mean off."""
    return text in ("1", "on", "enabled", "true")


def read_list(text: str) -> list[str]:
    """Makes a list of one text, for an option that may be given several times."""
    return [text]


def read_layers(text: str) -> int:
    """Reads a number, auto or all; raises ValueError for other words."""
    if text in LAYERS:
        return LAYERS[text]
    return int(text)


def read_parts(text: str) -> tuple[float, ...]:
    """Reads numbers with commas or slashes between them; raises ValueError otherwise."""
    return tuple(map(float, text.replace("/", ",").split(",")))


KINDS: dict[Any, str] = {
    int: "a number",
    float: "a number",
    read_switch: "on, off or auto",
    read_layers: "a number, auto or all",
    read_parts: "numbers with commas between them",
}

# Option -> its variable, the function that reads it, and the value if it is not set.
FALLBACKS: dict[str, tuple[str, Callable[[str], Any], Any]] = {
    "model": ("LLAMA_ARG_MODEL", str, None),
    "hf_repo": ("LLAMA_ARG_HF_REPO", str, None),
    "hf_file": ("LLAMA_ARG_HF_FILE", str, None),
    "hf_token": ("HF_TOKEN", str, None),
    "backend_key": ("CONSTRAINED_BACKEND_KEY", str, None),
    "offline": ("LLAMA_ARG_OFFLINE", read_flag, False),
    "reasoning_budget": ("LLAMA_ARG_THINK_BUDGET", int, -1),
    "chat_template_file": ("LLAMA_ARG_CHAT_TEMPLATE_FILE", str, None),
    "host": ("LLAMA_ARG_HOST", str, LOCAL_HOST),
    "port": ("LLAMA_ARG_PORT", int, PORT),
    "api_key": ("LLAMA_API_KEY", read_list, None),
    "alias": ("LLAMA_ARG_ALIAS", str, None),
    "models_dir": ("LLAMA_ARG_MODELS_DIR", str, None),
    "models_preset": ("LLAMA_ARG_MODELS_PRESET", str, None),
    "models_max": ("LLAMA_ARG_MODELS_MAX", int, MAX_MODELS),
    "sleep_idle_seconds": ("LLAMA_ARG_SLEEP_IDLE_SECONDS", float, -1.0),
    "ctx_size": ("LLAMA_ARG_CTX_SIZE", int, None),
    "parallel": ("LLAMA_ARG_N_PARALLEL", int, None),
    "threads": ("LLAMA_ARG_THREADS", int, None),
    "batch_size": ("LLAMA_ARG_BATCH", int, None),
    "ubatch_size": ("LLAMA_ARG_UBATCH", int, None),
    "flash_attn": ("LLAMA_ARG_FLASH_ATTN", read_switch, None),
    "cache_type_k": ("LLAMA_ARG_CACHE_TYPE_K", str, None),
    "cache_type_v": ("LLAMA_ARG_CACHE_TYPE_V", str, None),
    "gpu_layers": ("LLAMA_ARG_N_GPU_LAYERS", read_layers, None),
    "split_mode": ("LLAMA_ARG_SPLIT_MODE", str, None),
    "main_gpu": ("LLAMA_ARG_MAIN_GPU", int, None),
    "tensor_split": ("LLAMA_ARG_TENSOR_SPLIT", read_parts, None),
    "no_kv_offload": ("LLAMA_ARG_NO_KV_OFFLOAD", read_flag, None),
    "mlock": ("LLAMA_ARG_MLOCK", read_flag, None),
    "no_mmap": ("LLAMA_ARG_NO_MMAP", read_flag, None),
    "cache_ram": ("LLAMA_ARG_CACHE_RAM", int, CACHE_RAM),
}
# Option of the engine -> the library's name, for the same or for the opposite value.
NAMES = {"ctx_size": "context_length", "parallel": "sequences", "flash_attn": "flash_attention"}
SAME = ("threads", "threads_batch", "batch_size", "ubatch_size", "cache_type_k", "cache_type_v")
SAME += ("gpu_layers", "split_mode", "main_gpu", "tensor_split", "mlock")
DENIED = {"no_kv_offload": "kv_offload", "no_mmap": "mmap"}


def add_rows(parser: argparse.ArgumentParser) -> None:
    """Declares the input of commands that answer JSON Lines."""
    parser.add_argument("rows", nargs="?", default="-", help="JSON Lines; - or nothing: stdin")
    parser.add_argument(
        "--json", action="store_true", help="without effect: answers are always JSON Lines"
    )


def add_special_tokens(parser: argparse.ArgumentParser) -> None:
    """Declares the special tokens of a template that comes without a vocabulary."""
    parser.add_argument(
        "--special-token",
        metavar="TEXT",
        dest="special_tokens",
        action="append",
        help="a special token of the model, for a template without a vocabulary (repeatable)",
    )


def add_tool_options(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Declares the tools of a request, and the options of their calls."""
    add = parser.add_argument_group("tools").add_argument
    add(
        "--tools",
        metavar="FILE",
        required=required,
        help="JSON list of tools, or an MCP server's answer to tools/list; -: stdin",
    )
    add("--tool-choice", default="auto", help="auto, none, required, or the name of a tool")
    add("--no-parallel", action="store_true", help="allow at most one call")
    help = "do not allow empty strings for required properties"
    add("--require-nonempty", action="store_true", help=help)
    help = "order of declared keys in objects: any (the default), or as in the schema"
    add("--key-order", choices=tuple(KeyOrder), default=KeyOrder.ANY, help=help)


def add_hub_options(add: Callable[..., Any]) -> None:
    """Declares the options that name a model of the Hub.

    Args:
        add: `add_argument` of the parser, or of one of its groups.
    """
    add(
        "-hf",
        "--hf-repo",
        metavar="USER/REPO[:QUANT]",
        help="model on the Hugging Face Hub, downloaded once (LLAMA_ARG_HF_REPO)",
    )
    add("--hf-file", metavar="FILE", help="file in that repository (LLAMA_ARG_HF_FILE)")
    add(
        "--hf-token",
        metavar="TOKEN",
        help="token for the Hub; default: HF_TOKEN, else the saved login",
    )
    add("--offline", action="store_true", default=None, help="use downloaded models only")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options that name a model and its prompt."""
    add = parser.add_argument_group("model").add_argument
    help = (
        "GGUF file, or demo or smollm2, or the address of an engine that samples the tokens: "
        "llama-server://HOST:PORT, vllm://HOST:PORT, sglang://HOST:PORT (LLAMA_ARG_MODEL); "
        "default: demo, at temperature 0"
    )
    add("-m", "--model", "--backend", metavar="GGUF|URL", help=help)
    help = "GGUF file with the tokenizer of the engine's model; weights are not needed"
    add("--tokenizer", metavar="GGUF", help=help)
    help = "API key of the engine (CONSTRAINED_BACKEND_KEY)"
    add("--backend-key", metavar="KEY", help=help)
    help = "how long the engine may be silent before the request fails; default: 300"
    add("--backend-timeout", type=float, metavar="SECONDS", help=help)
    add_hub_options(add)
    add(
        "--chat-template-file",
        metavar="FILE",
        help="chat template to use instead of the one in the GGUF file",
    )
    add(
        "--chat-template-kwargs",
        metavar="JSON",
        default="{}",
        help="variables for the chat template",
    )
    add(
        "--reasoning",
        choices=tuple(THINKING),
        default="auto",
        help="whether the model reasons before it answers",
    )


def add_tool_format(parser: argparse.ArgumentParser) -> None:
    """Declares the option for another wire format than the template's."""
    help = "wire format of calls: a known one, or a file from `formats detect --save`"
    parser.add_argument("--tool-format", metavar="NAME|FILE", help=help)


def add_answer_options(parser: argparse.ArgumentParser) -> None:
    """Declares the constraints on the content of a reply."""
    group = parser.add_argument_group(
        "answer format (default: any text; with tools: calls, or this)"
    )
    add = group.add_mutually_exclusive_group().add_argument
    add("-j", "--json-schema", metavar="JSON_OR_FILE", help="JSON that fits this schema")
    add("--regex", help="text that this regular expression matches entirely")
    add("--choice", action="append", metavar="TEXT", help="one of these texts (repeatable)")
    add("--grammar", metavar="FILE", help="file with a grammar: Lark as in llguidance, or GBNF")


def add_reasoning_options(parser: argparse.ArgumentParser) -> None:
    """Declares the budget of reasoning, and whether later turns keep it."""
    add = parser.add_argument_group("reasoning").add_argument
    help = "limit of reasoning tokens; -1 (the default): no limit (LLAMA_ARG_THINK_BUDGET)"
    add("--reasoning-budget", type=int, metavar="N", help=help)
    help = "text that ends the reasoning when the budget is spent"
    add("--reasoning-close", metavar="TEXT", default="", help=help)
    help = (
        "reasoning of earlier turns: keep it, drop it as the template does, or (auto, the "
        "default) keep it until your next message"
    )
    add("--recall", choices=tuple(Recall), default=Recall.AUTO, help=help)
    help = "treat <thinking> as text if the template has no such block"
    add("--no-thinking-tags", action="store_true", help=help)


def add_engine_options(
    parser: argparse.ArgumentParser, *, sequences: int = EngineOptions.sequences
) -> None:
    """Declares how the engine runs the model.

    Args:
        parser: of the command.
        sequences: the default number of sequences (`choose_sequences`).
    """
    add = parser.add_argument_group("engine").add_argument
    help = (
        "context length of a sequence, in tokens; default: what the model was trained on, but at "
        "most 65,536 and half of the free memory; 0: what the model was trained on"
    )
    add("-c", "--ctx-size", type=int, metavar="TOKENS", help=help)
    help = (
        "sequences: requests decoded together, each with its own context if memory allows; "
        f"default: {sequences}"
    )
    add("-np", "--parallel", type=int, metavar="N", help=help)
    add("-t", "--threads", type=int, help="CPU threads; default: one per physical core")
    add(
        "-tb",
        "--threads-batch",
        type=int,
        metavar="N",
        help="CPU threads for prompts; default: same as -t",
    )
    help = f"batch size: maximum tokens in one decode; default: {EngineOptions.batch_size}"
    add("-b", "--batch-size", type=int, metavar="N", help=help)
    help = f"physical batch size: tokens computed at once; default: {EngineOptions.ubatch_size}"
    add("-ub", "--ubatch-size", type=int, metavar="N", help=help)
    add(
        "-fa",
        "--flash-attn",
        nargs="?",
        const="on",
        choices=tuple(SWITCH),
        help="flash attention; default: auto",
    )
    types = get_args(CacheType)
    help = f"type of the keys in the KV cache: {', '.join(types)}; default: f16"
    add("-ctk", "--cache-type-k", choices=types, metavar="TYPE", help=help)
    help = "type of the values in the KV cache; quantised ones need flash attention"
    add("-ctv", "--cache-type-v", choices=types, metavar="TYPE", help=help)
    _add_devices(add)
    add("--mlock", action="store_true", default=None, help="lock the model in memory")
    add("--no-mmap", action="store_true", default=None, help="read the file instead of mapping it")
    help = f"memory for cached prompts; default: {CACHE_RAM}; 0: none; -1: no limit"
    add("-cram", "--cache-ram", type=int, metavar="MIB", help=help)
    add("--cache-dir", metavar="DIR", help="keep cached prompts in this folder, for the next run")
    help = "the same request and seed give the same reply, whatever was cached; slower"
    add("--deterministic", action="store_true", help=help)
    help = "no speculative decoding of text that repeats the prompt"
    add("--no-draft", action="store_true", help=help)


def _add_devices(add: Callable[..., Any]) -> None:
    add(
        "-ngl",
        "--gpu-layers",
        "--n-gpu-layers",
        metavar="N",
        help="layers on the GPU; default: all",
    )
    help = "how several GPUs share the model; default: layer"
    add("-sm", "--split-mode", choices=get_args(SplitMode), help=help)
    add("-mg", "--main-gpu", type=int, metavar="N", help="GPU for tensors that are not split")
    add("-ts", "--tensor-split", metavar="N0,N1", help="proportions of several GPUs, such as 3,1")
    help = "keep the KV cache in main memory"
    add("-nkvo", "--no-kv-offload", action="store_true", default=None, help=help)


def read_max_tokens(text: str) -> int | None:
    """Reads a number of tokens; llama-server's -1 means no limit."""
    count = int(text)
    return None if count == -1 else count


def add_sampling_options(parser: argparse.ArgumentParser, *, max_tokens: int | None = 1024) -> None:
    """Declares how tokens are sampled.

    Args:
        parser: of the command.
        max_tokens: the default maximum of a reply; None: as many as fit into the context.
    """
    add = parser.add_argument_group(
        "sampling (defaults apply if the model recommends nothing)"
    ).add_argument
    help = f"maximum tokens of a reply; -1: until the context is full; default: {max_tokens or -1}"
    add(
        *("-n", "--max-tokens", "--predict", "--n-predict"),
        type=read_max_tokens,
        default=max_tokens,
        metavar="N",
        help=help,
    )
    add("--seed", type=int, help="seed; default, and -1: random")
    add("--temp", "--temperature", type=float, help=f"temperature; default: {Sampling.temperature}")
    add("--top-k", type=int, help=f"default: {Sampling.top_k}")
    add("--top-p", type=float, help=f"default: {Sampling.top_p}")
    add("--min-p", type=float, help=f"default: {Sampling.min_p}")
    help = f"penalty for repeated tokens; default: {Sampling.repeat_penalty} (none)"
    add("--repeat-penalty", type=float, help=help)
    help = f"number of last tokens that are penalised; -1: all; default: {Sampling.penalty_last_n}"
    add("--repeat-last-n", type=int, metavar="N", help=help)
    help = f"default: {Sampling.presence_penalty} (none)"
    add("--presence-penalty", type=float, help=help)
    help = f"default: {Sampling.frequency_penalty} (none)"
    add("--frequency-penalty", type=float, help=help)
    help = "end the reply before this text (repeatable)"
    add("--stop", action="append", metavar="TEXT", help=help)


def complete(options: argparse.Namespace) -> None:
    """Fills in missing options from the environment, which overrides the configuration file.

    Raises:
        RequestError: a variable or an option cannot be read.
    """
    parsed: Parsed = getattr(options, "parsed", Parsed(ParsedCommand()))
    named = {name for name in MODEL if getattr(options, name, None)} - parsed.of_file
    # If the command line names a model, variables do not name another one; if variables name one,
    # the file does not.
    ignored = find_rivals(named)
    variables = {
        name: variable
        for name, (variable, _, _) in FALLBACKS.items()
        if os.environ.get(variable) and name not in named | ignored
    }
    for name in find_rivals(variables.keys()) & parsed.of_file:
        setattr(options, name, None)
        del parsed.sources[name]
    for name, (variable, read, default) in FALLBACKS.items():
        if not hasattr(options, name):  # the command does not have this option
            continue
        given = getattr(options, name)
        if name in variables and (given is None or name in parsed.of_file):
            setattr(options, name, read_value(variable, os.environ[variable], read))
            parsed.sources[name] = variable
        elif isinstance(given, str):
            place = f"--{name.replace('_', '-')}"
            if name in parsed.of_file:
                place = f"{parsed.sources[name]}: {place[2:]}"
            setattr(options, name, read_value(place, given, read))
        elif given is None and name not in ignored:
            setattr(options, name, default)
    parsed.of_file.clear()  # a second call changes nothing


def read_value(name: str, text: str, read: Callable[[str], Any]) -> Any:
    """Reads the value of an option or a variable.

    Raises:
        RequestError: it cannot be read.
    """
    try:
        return read(text)
    except (ValueError, KeyError) as e:
        raise RequestError(f"{name} is {text!r}, not {KINDS[read]}") from e


def choose_sequences(options: argparse.Namespace, sequences: int) -> None:
    """Sets the number of sequences, if neither the command line nor the environment does;
    llama-server's -1 means the default, too. Each sequence decodes at least one token, so a small
    batch has fewer. A remote engine has its own number."""
    if is_address(options.model):
        options.parallel = None if options.parallel == -1 else options.parallel
    elif options.parallel in (None, -1):
        options.parallel = min(sequences, max(1, options.batch_size or sequences))


def read_engine_options(options: argparse.Namespace) -> LoadOptions:
    """Returns the completed options of the engine, by the library's names."""
    given: dict[str, Any] = {name: getattr(options, name) for name in SAME}
    for option, name in NAMES.items():
        given[name] = getattr(options, option)
    for option, name in DENIED.items():
        if getattr(options, option):
            given[name] = False
    return LoadOptions(**_drop_unset(given))


def _drop_unset(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def find_model(options: argparse.Namespace) -> str | None:
    """Returns the path or address of the model that the options name, after a download if
    necessary; None: they name none.

    Raises:
        RequestError: they name two models.
        ModelError: the model cannot be found or downloaded.
    """
    if not options.hf_repo:
        if options.hf_file:
            raise RequestError("--hf-file needs a repository", hint="Give it with -hf USER/REPO")
        if not options.model:
            return None
        if is_address(options.model):
            return options.model
        from constrained.engine.model_files.packaged import find_packaged

        return str(find_packaged(options.model) or options.model)
    if options.model:
        raise RequestError("both -m and -hf name a model", hint="Give one of them")
    spec = options.hf_repo
    if options.hf_file:  # takes precedence over a quantisation
        spec = f"{spec.removeprefix('hf:').partition(':')[0]}:{options.hf_file}"
    return str(fetch_model(spec, options))


def fetch_model(spec: str, options: argparse.Namespace) -> Path:
    """Returns the file of a model of the Hub, after a download if necessary.

    Raises:
        ModelError: the model cannot be found or downloaded.
    """
    from constrained.engine.model_files.hub import fetch

    with show_progress("downloading") as progress:
        return fetch(spec, token=options.hf_token, offline=options.offline, progress=progress)


def read_template(options: argparse.Namespace) -> str | None:
    """Returns the chat template that replaces the model's own; None: there is none."""
    path = options.chat_template_file
    if not path:
        return None
    return read_text(path, "--chat-template-file")


def read_tool_file(options: argparse.Namespace) -> list[Any]:
    """Returns the tools of the file unchanged; checks them first."""
    if not options.tools:
        return []
    tools: Any = read_json(read_text(options.tools, "--tools"), options.tools)
    match tools:
        case {"tools": [*listed]}:  # the answer of an MCP server to tools/list
            tools = listed
        case _:
            pass
    from constrained.prompt.tools.offer import read_offer

    read_offer(tools)
    return tools


def read_choice(options: argparse.Namespace) -> Any:
    """Returns the tool choice, in a form that `read_policy` reads."""
    choice = options.tool_choice
    if choice in CHOICES:
        return choice
    return {"type": "function", "function": {"name": choice}}


def read_kwargs(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the variables for the template."""
    kwargs = read_json(options.chat_template_kwargs, "--chat-template-kwargs")
    if not isinstance(kwargs, dict):
        raise RequestError("--chat-template-kwargs must be a JSON object")
    from constrained.prompt.template.chat_template import check_kwargs

    check_kwargs(kwargs)
    if options.reasoning != "auto":
        kwargs.setdefault("enable_thinking", options.reasoning == "on")
    return kwargs


def read_system(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the messages at the beginning of the conversation."""
    if not options.system:
        return []
    return [{"role": "system", "content": options.system}]


def read_sampling(options: argparse.Namespace, base: Sampling) -> Sampling:
    """Returns the sampling: `base` with the options of the command line.

    Raises:
        RequestError: a value is out of its range.
    """
    given = {
        "temperature": options.temp,
        "seed": None if options.seed == -1 else options.seed,
        "top_k": options.top_k,
        "top_p": options.top_p,
        "min_p": options.min_p,
        "repeat_penalty": options.repeat_penalty,
        "presence_penalty": options.presence_penalty,
        "frequency_penalty": options.frequency_penalty,
        "penalty_last_n": options.repeat_last_n,
    }
    return replace(base, **_drop_unset(given))
