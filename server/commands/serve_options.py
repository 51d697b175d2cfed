"""The options of `constrained serve`, and the settings of the server that they make."""

import argparse
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from constrained.cli import options as shared
from constrained.cli.commands.mcp import connection as mcp_options
from constrained.cli.configuration import AtLeast
from constrained.cli.options import LOCAL_HOST, MAX_MODELS, PORT
from constrained.cli.terminal.input import read_text
from constrained.engine.options import MAX_WAITING
from constrained.errors import RequestError
from constrained.prompt.job import Envelopes
from server.commands.embedding_options import add_embedding_options
from server.commands.logs import FORMATTERS
from server.hosting.mcp.forced_approval import ForcedApproval
from server.settings import ReasoningField, Settings

SEQUENCES = 4
"""With four sequences, eight clients wait a quarter as long as with one, and eight sequences are no
better. llama-server also has four."""
LOCAL = ("127.0.0.1", "localhost", "::1")
WITHOUT_EFFECT = (
    "--jinja",
    "--metrics",
    "--slots --no-slots",
    "--props",
    "-cb --cont-batching",
    "--webui --no-webui",
    "--warmup --no-warmup",
    "--mmap",
    "--kv-unified -kvu",
    "--log-disable",
)
REASONING_FORMATS = {
    "none": ReasoningField.INLINE,
    "auto": ReasoningField.REASONING_CONTENT,
    "deepseek": ReasoningField.REASONING_CONTENT,
    "deepseek-legacy": ReasoningField.REASONING_CONTENT,
}


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """Declares all options of the command."""
    add = parser.add_argument_group("server").add_argument
    _add_address(add)
    _add_models(parser.add_argument_group("several models").add_argument)
    mcp_options.add_options(parser, approve=False)
    _add_tool_limits(parser.add_argument_group("calls that the server executes").add_argument)
    add_embedding_options(parser.add_argument_group("embeddings").add_argument)
    _add_reasoning(add)
    _add_time_limits(add)
    _add_load_limits(add)
    _add_request_limits(add)
    _add_storage(add)
    _add_prompts(add)
    _add_log(add)
    _add_without_effect(parser)
    shared.add_model_options(parser)
    shared.add_tool_format(parser)
    shared.add_engine_options(parser, sequences=SEQUENCES)
    shared.add_sampling_options(parser, max_tokens=None)


def _add_address(add: Callable[..., Any]) -> None:
    """Declares the options for the address and for access."""
    add("--host", help=f"address; default: {LOCAL_HOST}, localhost only (LLAMA_ARG_HOST)")
    add("--port", type=int, help=f"port; default: {PORT}; 0: any free one (LLAMA_ARG_PORT)")
    help = "require this API key (repeatable; LLAMA_API_KEY)"
    add("--api-key", action="append", metavar="KEY", help=help)
    help = "require one of the API keys in this file, one per line"
    add("--api-key-file", metavar="FILE", help=help)
    help = (
        "names of the model in the API (comma-separated); replies use the first (LLAMA_ARG_ALIAS)"
    )
    add("-a", "--alias", metavar="NAME", help=help)
    help = "Host names that are accepted, or *; default: on localhost its own, else any"
    add("--allowed-hosts", metavar="HOST[,HOST]", help=help)
    help = "allow web pages of this origin (CORS; repeatable); *: any"
    add("--cors-origin", action="append", metavar="ORIGIN", default=[], help=help)


def _add_reasoning(add: Callable[..., Any]) -> None:
    help = "field for reasoning in Chat Completions; default: reasoning_content"
    add("--reasoning-field", choices=tuple(ReasoningField), help=help)
    help = "the same in llama-server's terms: none is inline, deepseek is reasoning_content"
    add("--reasoning-format", choices=tuple(REASONING_FORMATS), help=help)
    help = "default limit of reasoning tokens; 0: none; -1: no limit (LLAMA_ARG_THINK_BUDGET)"
    add("--reasoning-budget", type=int, metavar="N", help=help)


def _add_time_limits(add: Callable[..., Any]) -> None:
    add("--timeout", type=float, metavar="SECONDS", help="limit for a request; default: none")
    help = "time for running requests to end when the server stops; default: 30"
    add(
        "--drain",
        type=AtLeast(0, float),
        default=Settings.drain_seconds,
        metavar="SECONDS",
        help=help,
    )
    help = "disconnect clients that neither read nor send for this time; default: 60"
    add(
        "--idle-timeout",
        type=AtLeast(1, float),
        default=Settings.idle_seconds,
        metavar="SECONDS",
        help=help,
    )


def _add_load_limits(add: Callable[..., Any]) -> None:
    """Declares the limits for all requests together."""
    help = (
        f"maximum number of waiting requests; further ones get status 503; default: {MAX_WAITING}"
    )
    add("--max-waiting", type=AtLeast(1), default=MAX_WAITING, metavar="N", help=help)
    help = "maximum memory of all other caches together; default: see docs/server.md; 0: none"
    add("--cache-memory", type=AtLeast(0), metavar="MIB", help=help)


def _add_storage(add: Callable[..., Any]) -> None:
    """Declares the options for what the server keeps between requests."""
    help = f"maximum size of an uploaded file; default: {Settings.max_file >> 20}"
    add("--max-file", type=AtLeast(1), default=Settings.max_file >> 20, metavar="MIB", help=help)
    default = Settings.max_files_bytes >> 20
    help = f"maximum size of all files of one API key, in memory; default: {default}"
    add("--max-files", type=AtLeast(1), default=default, metavar="MIB", help=help)
    help = "folder for files and batches, which then survive a restart; default: only in memory"
    add("--batch-dir", metavar="FOLDER", help=help)
    help = (
        "share responses, ids of calls and generated turns with other servers, and keep them "
        "after a restart: sqlite:FILE, or redis://HOST:PORT (extra redis)"
    )
    add("--store", metavar="ADDRESS", help=help)


def _add_prompts(add: Callable[..., Any]) -> None:
    """Declares the options for making prompts and grammars from requests."""
    help = "do not enforce schemas of tools with strict: false"
    add("--lenient-tools", action="store_true", help=help)
    help = (
        "calls in another form than the model's own, where calls are optional: kept as they are "
        "(the default), written again in its own (native), or text (off)"
    )
    add("--envelopes", choices=tuple(Envelopes), default=Envelopes.KEPT, help=help)
    help = "keep text that agents change in every request; prompts are then computed again"
    add("--keep-volatile", action="store_true", help=help)
    help = "date in prompts, YYYY-MM-DD; default: the day the conversation began"
    add("--date", metavar="DATE", help=help)
    help = "share caches between API keys; response times then reveal what others asked"
    add("--share-cache", action="store_true", help=help)


def _add_log(add: Callable[..., Any]) -> None:
    """Declares the options for the log, metrics and traces."""
    add("--show-grammar", action="store_true", help="put the grammar into replies")
    add("--log-prompts", action="store_true", help="write prompts to the log")
    help = "append a trace of each reply to FILE: what decided each token (constrained trace)"
    add("--trace", metavar="FILE", help=help)
    size = Settings.max_trace_bytes >> 20
    help = f"size at which that file is renamed to FILE.1 and a new one begins; default: {size}"
    add("--trace-size", type=AtLeast(1), default=size, metavar="MIB", help=help)
    levels = ("debug", "info", "warning", "error")
    add("--log-level", choices=levels, default="info", help="default: info")
    help = (
        "form of the log: lines of text, or of JSON with the figures of each reply; default: text"
    )
    add("--log-format", choices=tuple(FORMATTERS), default="text", help=help)
    help = "export a span for each reply by OTLP (OTEL_EXPORTER_OTLP_ENDPOINT; extra otel)"
    add("--otel", action="store_true", help=help)
    add("-v", "--verbose", action="store_true", help="same as --log-level debug")


def _add_tool_limits(add: Callable[..., Any]) -> None:
    """Declares which calls the server executes, and the limits of replies with such calls."""
    help = (
        "MCP tools that requests may not use, since nobody approves their calls: none, those that "
    )
    help += "may change something (writes), all; default: none"
    add("--mcp-approval", choices=tuple(ForcedApproval), default=ForcedApproval.NONE, help=help)
    help = f"maximum number of turns in one reply; default: {Settings.max_tool_steps}"
    add("--tool-steps", type=AtLeast(1), default=Settings.max_tool_steps, metavar="N", help=help)
    seconds = Settings.max_tool_seconds
    help = f"time after which the model has to answer; default: {seconds:.0f}"
    add("--tool-seconds", type=AtLeast(1, float), default=seconds, metavar="SECONDS", help=help)
    size = Settings.max_tool_output >> 10
    help = f"maximum length of a result, in 1,024 characters; the rest is cut; default: {size}"
    add("--tool-output", type=AtLeast(1), default=size, metavar="N", help=help)


def _add_models(add: Callable[..., Any]) -> None:
    """Declares further models beside the one of -m, which requests choose by name."""
    help = "offer the GGUF files of this folder by name (LLAMA_ARG_MODELS_DIR)"
    add("--models-dir", metavar="FOLDER", help=help)
    help = "offer models, each with its own options; see docs/server.md (LLAMA_ARG_MODELS_PRESET)"
    add("--models-preset", metavar="FILE", help=help)
    help = f"maximum number of models loaded at once; default: {MAX_MODELS} (LLAMA_ARG_MODELS_MAX)"
    add("--models-max", type=int, metavar="N", help=help)
    help = "maximum memory of all loaded models; default: what is free at the start"
    add("--models-memory", type=AtLeast(1), metavar="MIB", help=help)
    help = "unload a model that has no request for this time; default: -1, never"
    add(
        "--sleep-idle-seconds",
        type=float,
        metavar="N",
        help=f"{help} (LLAMA_ARG_SLEEP_IDLE_SECONDS)",
    )


def _add_without_effect(parser: argparse.ArgumentParser) -> None:
    """Declares options of llama-server without effect here, so that its start commands work
    unchanged. The server warns about them."""
    for names in WITHOUT_EFFECT:
        parser.add_argument(
            *names.split(), action=_WithoutEffect, nargs=0, help=argparse.SUPPRESS, dest="ignored"
        )


class _WithoutEffect(argparse.Action):
    """Notes an option that has no effect."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        noted: list[str] = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*noted, option_string])


def _add_request_limits(add: Callable[..., Any]) -> None:
    """Declares the limits of one request. An error names the part of the request that exceeds a
    limit."""
    help = f"maximum size of a request; default: {Settings.max_body >> 20}"
    add("--max-body", type=AtLeast(1), default=Settings.max_body >> 20, metavar="MIB", help=help)
    limits = (
        ("max_values", "JSON values and names of members in a request"),
        ("max_tools", "tools in a request"),
        ("max_choices", "replies to one request (n)"),
    )
    for name, text in limits:
        default = getattr(Settings, name)
        option = f"--{name.replace('_', '-')}"
        add(
            option,
            type=AtLeast(1),
            default=default,
            metavar="N",
            help=f"maximum {text}; default: {default:,}",
        )
    default = Settings.max_repetition
    help = f"default limit of tokens of a value that repeats itself; -1: none; default: {default:,}"
    add("--max-repetition", type=int, default=default, metavar="N", help=help)
    help = "largest max_repetition that a request may set; default: -1, no limit"
    add("--max-repetition-limit", type=int, default=-1, metavar="N", help=help)
    sizes = (
        ("max_schema", "the schema of one tool, or of an answer"),
        ("max_template_kwargs", "chat_template_kwargs"),
        ("max_echoed", "metadata, and of each field that is only returned"),
        ("max_line", "one line of a batch"),
    )
    for name, text in sizes:
        default = getattr(Settings, name) >> 10
        option = f"--{name.replace('_', '-')}"
        help = f"maximum size of {text}, as JSON; default: {default:,}"
        add(option, type=AtLeast(1), default=default, metavar="KIB", help=help)


def _read_date(given: str | None) -> datetime | None:
    if given is None:
        return None
    try:
        return datetime.fromisoformat(given)
    except ValueError as error:
        hint = "Write it as YYYY-MM-DD"
        raise RequestError(f"--date is {given!r}", where="/date", hint=hint) from error


def read_settings(options: argparse.Namespace) -> Settings:
    """Makes the settings of the server from its options.

    Raises:
        RequestError: a key is empty, or a limit is too small.
    """
    from constrained.decode.filters.stop_texts import read_stops

    return Settings(
        api_keys=_read_keys(options),
        reasoning_field=_read_reasoning_field(options),
        max_tokens=options.max_tokens,
        stop=read_stops(options.stop),
        template_kwargs=shared.read_kwargs(options),
        reasoning=shared.SWITCH[options.reasoning],
        reasoning_budget=_read_budget(options.reasoning_budget),
        timeout=options.timeout,
        idle_seconds=options.idle_timeout,
        drain_seconds=options.drain,
        allowed_hosts=_read_hosts(options),
        max_body=options.max_body << 20,
        max_values=options.max_values,
        max_tools=options.max_tools,
        max_waiting=options.max_waiting,
        max_choices=options.max_choices,
        max_repetition=_read_unbounded(options.max_repetition),
        max_repetition_limit=_read_unbounded(options.max_repetition_limit),
        max_tool_steps=options.tool_steps,
        max_tool_seconds=options.tool_seconds,
        max_tool_output=options.tool_output << 10,
        max_schema=options.max_schema << 10,
        max_template_kwargs=options.max_template_kwargs << 10,
        max_echoed=options.max_echoed << 10,
        max_line=options.max_line << 10,
        max_file=options.max_file << 20,
        max_files_bytes=options.max_files << 20,
        batch_dir=None if options.batch_dir is None else Path(options.batch_dir),
        cors_origins=tuple(options.cors_origin),
        keep_volatile=options.keep_volatile,
        date=_read_date(options.date),
        share_cache=options.share_cache,
        lenient_tools=options.lenient_tools,
        envelopes=Envelopes(options.envelopes),
        show_grammar=options.show_grammar,
        log_prompts=options.log_prompts,
        trace=None if options.trace is None else Path(options.trace),
        max_trace_bytes=options.trace_size << 20,
        otel=options.otel,
    )


def _read_reasoning_field(options: argparse.Namespace) -> ReasoningField:
    if options.reasoning_field is not None:
        return ReasoningField(options.reasoning_field)
    return REASONING_FORMATS[options.reasoning_format or "auto"]


def _read_unbounded(given: int) -> int | None:
    """Returns a number of tokens; None for -1, which means no limit."""
    return None if given == -1 else given


def _read_budget(given: int | None) -> int | None:
    """Returns the maximum number of reasoning tokens; None: no limit."""
    if given is None or given < 0:
        return None
    return given


def _read_hosts(options: argparse.Namespace) -> tuple[str, ...] | None:
    """Returns the host names that requests may use; None: any."""
    given: str | None = options.allowed_hosts
    if given == "*" or (given is None and (options.host or LOCAL_HOST) not in LOCAL):
        return None
    named = [name.strip().lower() for name in (given or "").split(",")]
    return tuple(filter(None, [*named, "localhost", "127.0.0.1", "[::1]"]))


def _read_keys(options: argparse.Namespace) -> tuple[str, ...]:
    keys: list[str] = list(options.api_key or ())
    if options.api_key_file:
        keys += read_text(options.api_key_file, "--api-key-file").split()
    if not all(keys) or (options.api_key_file and not keys):
        raise RequestError("an API key is empty", where="/api_key")
    return tuple(keys)
