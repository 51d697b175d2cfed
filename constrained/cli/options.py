"""Options that several commands share, in llama-server's spelling where it has them."""

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from constrained.cli.declared import add_fields, add_option, read_fields
from constrained.cli.terminal.input import read_json, read_text
from constrained.cli.terminal.output import show_progress
from constrained.engine.options import CACHE_RAM, EngineOptions, LoadOptions, ValueForm
from constrained.engine.sampling import Sampling
from constrained.errors import RequestError
from constrained.model_files.sources import HUB, find_source
from constrained.prompt.job import Recall
from constrained.remote.address import is_address
from grammars.turn import KeyOrder, Think

THINKING = {"on": Think.REQUIRED, "off": Think.FORBIDDEN, "auto": Think.OPTIONAL}
# Titles of groups in the help; see `constrained.cli.declared.DETAILS`.
MODEL_GROUP = "model"
SAMPLING_GROUP = "sampling (defaults apply if the model recommends nothing)"
DOWNLOADS_GROUP = "advanced: downloads"
ENGINE_GROUP = "advanced: engine"
PROMPTS_GROUP = "advanced: prompts"


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
        help="JSON list of tools, an MCP server's answer to tools/list, or a Python file, whose "
        "functions are executed; -: stdin",
    )
    add("--tool-choice", default="auto", help="auto, none, required, or the name of a tool")
    add("--no-parallel", action="store_true", help="allow at most one call")
    help = "do not allow empty strings for required properties"
    add("--require-nonempty", action="store_true", help=help)
    help = "order of declared keys in objects: any (the default), or as in the schema"
    add("--key-order", choices=tuple(KeyOrder), default=KeyOrder.ANY, help=help)


def add_hub_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options that name a model of the Hub."""
    add = partial(add_option, parser)
    help = "model on the Hugging Face Hub, downloaded once"
    add("-hf --hf-repo USER/REPO[:QUANT] $LLAMA_ARG_HF_REPO", help, group=MODEL_GROUP)
    add("--hf-file FILE $LLAMA_ARG_HF_FILE", "file in that repository", group=DOWNLOADS_GROUP)
    help = "token for the Hub; default: the saved login"
    add("--hf-token TOKEN $HF_TOKEN", help, group=DOWNLOADS_GROUP)
    help = "use downloaded models only"
    add("--offline $LLAMA_ARG_OFFLINE", help, group=DOWNLOADS_GROUP, kind=bool, default=False)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options that name a model and its prompt."""
    add = partial(add_option, parser, group=MODEL_GROUP)
    add_elsewhere = partial(add_option, parser, group="advanced: engines elsewhere")
    help = (
        "GGUF file, or a name that `constrained models` lists, such as demo or ollama:qwen3:8b, or "
        "the address of an engine that samples the tokens: "
        "llama-server://HOST:PORT, vllm://HOST:PORT, sglang://HOST:PORT; default: demo, at "
        "temperature 0"
    )
    add("-m --model --backend GGUF|NAME|URL $LLAMA_ARG_MODEL", help)
    help = "GGUF file with the tokenizer of the engine's model; weights are not needed"
    add_elsewhere("--tokenizer GGUF", help)
    add_elsewhere("--backend-key KEY $CONSTRAINED_BACKEND_KEY", "API key of the engine")
    help = "how long the engine may be silent before the request fails; default: 300"
    add_elsewhere("--backend-timeout SECONDS", help, kind=float)
    add_hub_options(parser)
    help = "chat template to use instead of the one in the GGUF file"
    add("--chat-template-file FILE $LLAMA_ARG_CHAT_TEMPLATE_FILE", help)
    help = "variables for the chat template"
    add("--chat-template-kwargs JSON", help, group=PROMPTS_GROUP, default="{}")
    help = "whether the model reasons before it answers"
    add("--reasoning", help, kind=Literal["on", "off", "auto"], default="auto")


def add_tool_format(parser: argparse.ArgumentParser) -> None:
    """Declares the option for another wire format than the template's."""
    help = "how calls are written: a known format, or a file from `formats detect --save`"
    add_option(parser, "--tool-format NAME|FILE", help, group=MODEL_GROUP)


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


def add_server_options(add: Callable[..., object]) -> None:
    """Declares what a command that asks a server has to know of it; `add` is `add_argument` of a
    parser or a group."""
    help = "the model to ask; default: the server's first model"
    add("--model", dest="served_model", metavar="NAME", default="", help=help)
    help = "the key of the server (LLAMA_API_KEY)"
    add("--api-key", "--key", dest="server_key", metavar="KEY", help=help)


def read_server_key(options: argparse.Namespace) -> str:
    """Returns the key of the server; "": none."""
    if options.server_key is not None:
        return options.server_key
    return os.environ.get("LLAMA_API_KEY", "").partition(",")[0]


def add_reasoning_options(parser: argparse.ArgumentParser) -> None:
    """Declares the budget of reasoning, and whether later turns keep it."""
    add_reasoning_budget(parser)
    add = partial(add_option, parser, group="advanced: reasoning")
    help = "text that ends the reasoning when the budget is spent"
    add("--reasoning-close TEXT", help, default="")
    help = (
        "reasoning of earlier turns: keep it, drop it as the template does, or (auto, the "
        "default) keep it until your next message"
    )
    add("--recall", help, kind=Recall, default=Recall.AUTO)
    help = "treat <thinking> as text if the template has no such block"
    add("--no-thinking-tags", help, kind=bool)


def add_reasoning_budget(parser: argparse.ArgumentParser) -> None:
    """Declares the budget of reasoning."""
    help = "limit of reasoning tokens; 0: none; -1: no limit"
    form = "--reasoning-budget N $LLAMA_ARG_THINK_BUDGET"
    add_option(parser, form, help, group=MODEL_GROUP, kind=int, default=-1)


def add_engine_options(
    parser: argparse.ArgumentParser, *, sequences: int = EngineOptions.sequences
) -> None:
    """Declares how the engine runs the model; `sequences` is their default number
    (`choose_sequences`)."""
    add_fields(parser, EngineOptions, ENGINE_GROUP, keep_unset=True, sequences=sequences)
    add = partial(add_option, parser, group=ENGINE_GROUP)
    help = "memory for cached prompts; 0: none; -1: no limit"
    add("-cram --cache-ram MIB $LLAMA_ARG_CACHE_RAM", help, kind=int, default=CACHE_RAM)
    add("--cache-dir DIR", "keep cached prompts in this folder, for the next run")
    help = "the same request and seed give the same reply, whatever was cached; slower"
    add("--deterministic", help, kind=bool)
    help = "no speculative decoding of text that repeats the prompt"
    add("--no-draft", help, kind=bool)


def read_max_tokens(text: str) -> int | None:
    """Reads a number of tokens; llama-server's -1 means no limit."""
    count = int(text)
    return None if count == -1 else count


def add_sampling_options(parser: argparse.ArgumentParser, *, max_tokens: int | None = 1024) -> None:
    """Declares how tokens are sampled; `max_tokens` is the default maximum of a reply, None: as
    many as fit into the context."""
    help = f"maximum tokens of a reply; -1: until the context is full; default: {max_tokens or -1}"
    value_form = ValueForm(further={"type": read_max_tokens})
    form = "-n --max-tokens --predict --n-predict N"
    add_option(parser, form, help, group=SAMPLING_GROUP, default=max_tokens, value_form=value_form)
    help = "end the reply before this text (repeatable)"
    add_option(parser, "--stop TEXT", help, group=SAMPLING_GROUP, kind=tuple[str, ...])
    add_fields(parser, Sampling, SAMPLING_GROUP, keep_unset=True)


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
    return LoadOptions(**read_fields(EngineOptions, options))


def find_model(options: argparse.Namespace) -> str | None:
    """Returns the path or address of the model that the options name, after a download if
    necessary; None: they name none."""
    if not options.hf_repo:
        if options.hf_file:
            raise RequestError("--hf-file needs a repository", hint="Give it with -hf USER/REPO")
        if not options.model:
            return None
        if is_address(options.model):
            return options.model
        return str(find_file(options.model, options))
    if options.model:
        raise RequestError("both -m and -hf name a model", hint="Give one of them")
    spec = options.hf_repo
    if options.hf_file:  # takes precedence over a quantisation
        spec = f"{spec.removeprefix('hf:').partition(':')[0]}:{options.hf_file}"
    return str(_fetch(spec, options))


def find_file(source: str, options: argparse.Namespace) -> Path:
    """Returns the file of a model (see `find_source`), after a download if necessary."""
    return _fetch(source, options) if source.startswith(HUB) else find_source(source)


def _fetch(spec: str, options: argparse.Namespace) -> Path:
    from constrained.model_files.hub import fetch

    with show_progress("downloading") as progress:
        return fetch(spec, token=options.hf_token, offline=options.offline, progress=progress)


def read_template(options: argparse.Namespace) -> str | None:
    """Returns the chat template that replaces the model's own; None: there is none."""
    if not options.chat_template_file:
        return None
    return read_text(options.chat_template_file, "--chat-template-file")


def read_tool_file(options: argparse.Namespace) -> list[Any]:
    """Returns the tools of the file unchanged; checks them first. Those of a Python file are its
    functions."""
    if not options.tools:
        return []
    if options.tools.endswith(".py"):
        from constrained.prompt.tools.functions import load_functions

        return [*load_functions(options.tools)]
    tools: Any = read_json(read_text(options.tools, "--tools"), options.tools)
    match tools:
        case {"tools": [*listed]}:  # the answer of an MCP server to tools/list
            tools = listed
        case _:
            pass
    from constrained.prompt.tools.offer import read_offer

    read_offer(tools)
    return tools


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
    """Returns the sampling: `base` with the options of the command line."""
    return replace(base, **read_fields(Sampling, options))
