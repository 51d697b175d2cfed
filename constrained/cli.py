"""The command line: `constrained call` and `constrained check`."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from constrained.check import check_rows, read_rows
from constrained.engine.protocol import Sampling
from constrained.errors import RequestError
from constrained.reply import Reply
from constrained.template import check_kwargs
from constrained.tools import read_tools
from grammars.errors import Error
from grammars.turn import Think, ToolCall

_WORDS = ("auto", "none", "required")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; 0 if all went well, 2 on an error that the user can mend."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except BrokenPipeError:  # who reads has seen enough; python would try to write the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Error, OSError) as e:
        return _report(str(e), options)
    except KeyboardInterrupt:
        return 130


def _report(message: str, options: argparse.Namespace) -> int:
    if options.json:
        _print_json({"error": message})
    print(f"constrained: error: {message}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="constrained", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    call = commands.add_parser("call", help="answer one message, with tools")
    call.set_defaults(run=_call)
    call.add_argument("message", help="what the user says")
    call.add_argument("--tools", metavar="FILE", help="JSON list of tools")
    call.add_argument("--system", metavar="TEXT", help="system message")
    call.add_argument("--tool-choice", default="auto", help="auto, none, required, or a tool")
    call.add_argument("--no-parallel", action="store_true", help="at most one call")
    call.add_argument("--json", action="store_true", help="print the reply as JSON")
    call.add_argument("--show-prompt", action="store_true", help="print the prompt's tail first")
    _add_model_options(call)
    _add_sampling_options(call)
    check = commands.add_parser("check", help="replay recorded turns: grammar and parser")
    check.set_defaults(run=_check)
    check.add_argument("rows", nargs="?", default="-", help="JSON Lines; - or nothing: stdin")
    check.add_argument("--json", action="store_true", help="(the answers are JSON Lines always)")
    return parser


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("model").add_argument
    add("-m", "--model", default=os.environ.get("LLAMA_ARG_MODEL"), metavar="GGUF")
    add("-c", "--ctx-size", type=int, default=_environment("CTX_SIZE", 4096), metavar="TOKENS")
    add("-t", "--threads", type=int, default=_environment("THREADS", None))
    add("-ngl", "--gpu-layers", type=int, default=_environment("N_GPU_LAYERS", -1))
    add("-fa", "--flash-attn", choices=("on", "off", "auto"), default="auto")
    add("--chat-template-file", metavar="FILE", help="in place of the GGUF's own")
    add("--chat-template-kwargs", metavar="JSON", default="{}", help="variables for the template")
    add("--reasoning", choices=("on", "off", "auto"), default="auto", help="think first")


def _add_sampling_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("sampling").add_argument
    add("-n", "--max-tokens", type=int, default=1024)
    add("--seed", type=int, default=None)
    add("--temp", type=float, default=Sampling.temperature)
    add("--top-k", type=int, default=Sampling.top_k)
    add("--top-p", type=float, default=Sampling.top_p)
    add("--min-p", type=float, default=Sampling.min_p)


def _environment(name: str, default: int | None) -> int | None:
    """An LLAMA_ARG_* variable, as llama-server reads them."""
    text = os.environ.get(f"LLAMA_ARG_{name}")
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        _exit(f"LLAMA_ARG_{name} is {text!r}, not a number")


def _exit(message: str) -> NoReturn:
    print(f"constrained: error: {message}", file=sys.stderr)
    raise SystemExit(2)


def _call(options: argparse.Namespace) -> int:
    tools = _read_json(_read(options.tools), options.tools) if options.tools else []
    read_tools(tools)  # a mistake in them shows before a model is loaded
    kwargs = _template_kwargs(options)
    messages = [{"role": "user", "content": options.message}]
    if options.system:
        messages.insert(0, {"role": "system", "content": options.system})
    seed = None if options.seed == -1 else options.seed  # as in llama.cpp
    sampling = Sampling(options.temp, options.top_k, options.top_p, options.min_p, seed)
    choice = options.tool_choice
    if choice not in _WORDS:
        choice = {"type": "function", "function": {"name": choice}}
    from constrained.compiling import Job

    think = {"on": Think.REQUIRED, "off": Think.FORBIDDEN}.get(options.reasoning, Think.OPTIONAL)
    with _load(options) as model:
        if model.compiler.format.reasoning is None:
            think = Think.OPTIONAL
        job = Job(messages, tools, choice, not options.no_parallel, think, kwargs)
        turn = model.compile(job)
        for note in _notes(model, turn, options):
            print(f"constrained: note: {note}", file=sys.stderr)
        if options.show_prompt:
            _print(f"prompt: ...{turn.prompt.text[-160:]!r}\nstart: {turn.state.start.value}")
        reply = model.run([turn], max_tokens=options.max_tokens, sampling=sampling)[0]
    if options.json:
        _print_json(reply.to_json())
    else:
        _print(_show(reply))
    return 0


def _notes(model: Any, turn: Any, options: argparse.Namespace) -> Iterator[str]:
    """What was asked for and is not so, and what the mask does not hold."""
    if options.reasoning != "auto" and turn.format.reasoning is None:
        yield "the chat template has no reasoning block: --reasoning is ignored"
    length = model.engine.context_length
    if options.ctx_size > length:
        yield f"the model was trained on a context of {length} tokens: -c is lowered to that"
    for tool in turn.tools:
        for finding in tool.schema.report.checked:
            where = f"tool {tool.name!r}, {finding.pointer or 'the root'}"
            yield f"{where}: {finding.keyword} is checked after generation ({finding.reason})"


def _load(options: argparse.Namespace) -> Any:
    from constrained.model import load

    if not options.model:
        raise RequestError("no model is named", hint="Give one with -m MODEL.gguf")
    template = options.chat_template_file
    return load(
        options.model,
        chat_template=_read(template) if template else None,
        context_length=options.ctx_size,
        threads=options.threads,
        gpu_layers=options.gpu_layers,
        flash_attention={"on": True, "off": False}.get(options.flash_attn),
        progress=_show_progress if sys.stderr.isatty() else None,
    )


def _show_progress(part: float) -> None:
    end = "\n" if part >= 1 else ""
    print(f"\rloading {part:4.0%}", end=end, file=sys.stderr, flush=True)


def _template_kwargs(options: argparse.Namespace) -> dict[str, Any]:
    kwargs = _read_json(options.chat_template_kwargs, "--chat-template-kwargs")
    if not isinstance(kwargs, dict):
        raise RequestError("--chat-template-kwargs has to be a JSON object")
    check_kwargs(kwargs)
    if options.reasoning != "auto":
        kwargs.setdefault("enable_thinking", options.reasoning == "on")
    return kwargs


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise RequestError(f"{path} is not UTF-8: {e}") from e


def _read_json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise RequestError(f"{name} is not JSON: {e}") from e


def _print_json(value: Any) -> None:
    try:
        print(json.dumps(value, ensure_ascii=False), flush=True)
    except UnicodeEncodeError:  # a lone surrogate, or a terminal that does not speak UTF-8
        print(json.dumps(value), flush=True)


def _print(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def _show(reply: Reply) -> str:
    lines = [f"(reasoning) {reply.reasoning}"] if reply.reasoning else []
    lines += [reply.content] if reply.content else []
    lines += [_show_call(call) for call in reply.calls]
    if reply.finish_reason == "length":
        lines.append("(the tokens ran out: raise --max-tokens, or the context with -c)")
    if reply.unfinished:
        lines.append(f"(cut call, not delivered) {reply.unfinished!r}")
    return "\n".join(lines)


def _show_call(call: ToolCall) -> str:
    arguments = [f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in call.arguments.items()]
    return f"{call.name}({', '.join(arguments)})"


def _check(options: argparse.Namespace) -> int:
    for answer in check_rows(read_rows(_lines(options.rows))):
        _print_json(answer)
    return 0


def _lines(path: str) -> Iterator[bytes]:
    if path == "-":
        yield from sys.stdin.buffer
        return
    with Path(path).open("rb") as file:
        yield from file
