"""Options that several commands share, in llama-server's spelling where it has them.

Options of the model fall back on llama-server's LLAMA_ARG_* variables. Those are read when the
command runs: a bad one does not keep a command from running that has no use for it.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from constrained.commands import engine
from constrained.commands.input import read_json, read_text
from constrained.commands.variables import read_flag, read_value, read_variable
from constrained.engine.protocol import Sampling
from constrained.errors import RequestError
from constrained.job import Recall
from constrained.template.chat_template import check_kwargs
from constrained.tools.offer import read_offer
from grammars.turn import KeyOrder, Think

CHOICES = ("auto", "none", "required")
THINKING = {"on": Think.REQUIRED, "off": Think.FORBIDDEN, "auto": Think.OPTIONAL}

# Option -> the end of its variable's name, how to read that, and the value where it is not set.
FALLBACKS: dict[str, tuple[str, Callable[[str], Any], Any]] = {
    "model": ("MODEL", str, None),
    "hf_repo": ("HF_REPO", str, None),
    "hf_file": ("HF_FILE", str, None),
    "offline": ("OFFLINE", read_flag, False),
    "reasoning_budget": ("THINK_BUDGET", int, -1),
    "chat_template_file": ("CHAT_TEMPLATE_FILE", str, None),
    **engine.FALLBACKS,
}


def add_rows(parser: argparse.ArgumentParser) -> None:
    """For commands that answer JSON Lines."""
    parser.add_argument("rows", nargs="?", default="-", help="JSON Lines; - or nothing: stdin")
    parser.add_argument("--json", action="store_true", help="(the answers are JSON Lines always)")


def add_tool_options(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """The tools of a request, and what it allows."""
    add = parser.add_argument_group("tools").add_argument
    add("--tools", metavar="FILE", required=required, help="JSON list of tools")
    add("--tool-choice", default="auto", help="auto, none, required, or a tool")
    add("--no-parallel", action="store_true", help="at most one call")
    help = "a required string argument has at least one character"
    add("--require-nonempty", action="store_true", help=help)
    help = "declared keys of objects come in any order (the default), or in that of the schema"
    add("--key-order", choices=tuple(KeyOrder), default=KeyOrder.ANY, help=help)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Which model, and how it is prompted."""
    add = parser.add_argument_group("model").add_argument
    add(
        "-m",
        "--model",
        metavar="GGUF",
        help="a file (LLAMA_ARG_MODEL); default: a small demo model",
    )
    add(
        "-hf",
        "--hf-repo",
        metavar="USER/REPO[:QUANT]",
        help="a model of the Hugging Face Hub, downloaded once (LLAMA_ARG_HF_REPO)",
    )
    add("--hf-file", metavar="FILE", help="a file of that repository (LLAMA_ARG_HF_FILE)")
    add("--hf-token", metavar="TOKEN", help="default: HF_TOKEN, else the saved login")
    add("--offline", action="store_true", default=None, help="do not ask the Hub")
    add("--chat-template-file", metavar="FILE", help="in place of the GGUF's own")
    add("--chat-template-kwargs", metavar="JSON", default="{}", help="variables for the template")
    add("--reasoning", choices=tuple(THINKING), default="auto", help="think first")


def add_tool_format(parser: argparse.ArgumentParser) -> None:
    """How calls are written, where the user knows better than the template."""
    help = "how calls are written: a known format, or a file of `formats detect --save`"
    parser.add_argument("--tool-format", metavar="NAME|FILE", help=help)


def add_answer_options(parser: argparse.ArgumentParser) -> None:
    """What the content of a reply has to be."""
    group = parser.add_argument_group("answer, any text by default; with tools: calls or this")
    add = group.add_mutually_exclusive_group().add_argument
    add("-j", "--json-schema", metavar="JSON_OR_FILE", help="JSON that fits this schema")
    add("--regex", help="text that this expression matches as a whole")
    add("--choice", action="append", metavar="TEXT", help="one of these texts; give it repeatedly")
    add("--grammar", metavar="FILE", help="a grammar, Lark as in llguidance, or GBNF")


def add_reasoning_options(parser: argparse.ArgumentParser) -> None:
    """How long the model thinks."""
    add = parser.add_argument_group("reasoning").add_argument
    help = "at most so many tokens; -1, the default: as many as it likes (LLAMA_ARG_THINK_BUDGET)"
    add("--reasoning-budget", type=int, metavar="N", help=help)
    help = "what ends a reasoning whose budget is spent"
    add("--reasoning-close", metavar="TEXT", default="", help=help)
    help = (
        "the reasoning of earlier turns: what the model saw, what the template shows, or (auto, "
        "the default) the one until your next message, then the other"
    )
    add("--recall", choices=tuple(Recall), default=Recall.AUTO, help=help)
    help = "<thinking> that the template does not know is text, not reasoning"
    add("--no-thinking-tags", action="store_true", help=help)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """How tokens are drawn."""
    add = parser.add_argument_group("sampling, by default as the model recommends").add_argument
    add("-n", "--max-tokens", type=int, default=1024)
    add("--seed", type=int, help="default, and -1: another one each time")
    add("--temp", type=float, help=f"else {Sampling.temperature}")
    add("--top-k", type=int, help=f"else {Sampling.top_k}")
    add("--top-p", type=float, help=f"else {Sampling.top_p}")
    add("--min-p", type=float, help=f"else {Sampling.min_p}")
    help = f"of tokens that were there before; else {Sampling.repeat_penalty}: none"
    add("--repeat-penalty", type=float, help=help)
    help = f"at so many tokens before the penalties look, -1: all; else {Sampling.penalty_last_n}"
    add("--repeat-last-n", type=int, metavar="N", help=help)
    help = f"else {Sampling.presence_penalty}: none"
    add("--presence-penalty", type=float, help=help)
    help = f"else {Sampling.frequency_penalty}: none"
    add("--frequency-penalty", type=float, help=help)
    help = "the content ends in front of this text, and the reply with it; give it repeatedly"
    add("--stop", action="append", metavar="TEXT", help=help)


def complete(options: argparse.Namespace) -> None:
    """Fills in from the environment what the command line leaves open.

    Raises:
        RequestError: a variable or an option cannot be read.
    """
    named = {name for name in ("model", "hf_repo") if getattr(options, name)}
    taken = {"model": "hf_repo", "hf_repo": "model", "hf_file": "model"}  # one model is enough
    for name, (variable, read, default) in FALLBACKS.items():
        if not hasattr(options, name):  # the command has no such option
            continue
        given = getattr(options, name)
        if given is not None:
            option = f"--{name.replace('_', '-')}"
            value = read_value(option, given, read) if isinstance(given, str) else given
        elif taken.get(name) in named:
            value = None
        else:
            value = read_variable(f"LLAMA_ARG_{variable}", read, default)
        setattr(options, name, value)


def find_model(options: argparse.Namespace) -> str | None:
    """The path of the model that the options name, downloaded if need be; None if they name none.

    Raises:
        RequestError: they name two.
        ModelError: it is not to be had.
    """
    if not options.hf_repo:
        if options.hf_file:
            raise RequestError("--hf-file needs a repository", hint="Give it with -hf USER/REPO")
        return options.model
    if options.model:
        raise RequestError("both -m and -hf name a model", hint="Give one of them")
    from constrained.model.hub import fetch

    spec = options.hf_repo
    if options.hf_file:  # goes before a quantisation
        spec = f"{spec.removeprefix('hf:').partition(':')[0]}:{options.hf_file}"
    path = fetch(
        spec,
        token=options.hf_token,
        offline=options.offline,
        progress=show_progress("downloading"),
    )
    return str(path)


def show_progress(what: str) -> Callable[[float], None] | None:
    """What shows the part done on a terminal; None where there is none."""
    if not sys.stderr.isatty():
        return None

    def show(part: float) -> None:
        end = "\n" if part >= 1 else ""
        print(f"\r{what} {part:4.0%}", end=end, file=sys.stderr, flush=True)

    return show


def read_template(options: argparse.Namespace) -> str | None:
    """The chat template that replaces the model's own, or None."""
    path = options.chat_template_file
    return read_text(path, "--chat-template-file") if path else None


def read_tool_file(options: argparse.Namespace) -> list[Any]:
    """The tools as they stand in the file; a mistake in them shows here."""
    if not options.tools:
        return []
    tools = read_json(read_text(options.tools, "--tools"), options.tools)
    read_offer(tools)
    return tools


def read_choice(options: argparse.Namespace) -> Any:
    """The tool choice, in a form that `read_policy` reads."""
    choice = options.tool_choice
    return choice if choice in CHOICES else {"type": "function", "function": {"name": choice}}


def read_kwargs(options: argparse.Namespace) -> dict[str, Any]:
    """The variables for the template."""
    kwargs = read_json(options.chat_template_kwargs, "--chat-template-kwargs")
    if not isinstance(kwargs, dict):
        raise RequestError("--chat-template-kwargs has to be a JSON object")
    check_kwargs(kwargs)
    if options.reasoning != "auto":
        kwargs.setdefault("enable_thinking", options.reasoning == "on")
    return kwargs


def read_system(options: argparse.Namespace) -> list[dict[str, Any]]:
    """How the conversation begins."""
    return [{"role": "system", "content": options.system}] if options.system else []


def read_sampling(options: argparse.Namespace, base: Sampling) -> Sampling:
    """How to draw tokens: what the command line says, over `base`.

    Raises:
        RequestError: a value is out of its range.
    """
    given = {"temperature": options.temp, "seed": None if options.seed == -1 else options.seed}
    same = ("top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
    given |= {name: getattr(options, name) for name in same}
    given["penalty_last_n"] = options.repeat_last_n
    return replace(base, **{name: value for name, value in given.items() if value is not None})
