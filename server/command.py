"""`constrained serve`: the HTTP server."""

import argparse
import gc
import logging
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained import embedded
from constrained.commands import options as shared
from constrained.commands.configuration import Parsed
from constrained.commands.mcp import connection as mcp_options
from constrained.commands.options import LOCAL_HOST, MOST_MODELS, PORT
from constrained.deadline import check_timeout
from constrained.engine.host import available_memory, bound_heap, keep_returning
from constrained.engine.options import MOST_WAITING, read_options
from constrained.engine.sampling import Sampling
from constrained.errors import RequestError
from constrained.own_packages import install_command
from constrained.remote.address import is_address
from constrained.terminal.exit_codes import ExitCode, find_code
from constrained.terminal.input import read_text
from constrained.terminal.output import print_error
from grammars.byte_cache import MIB, bound_caches
from server.logs import FORMATTERS, set_up_log
from server.mcp.approval import Approval
from server.models.embedding_options import add_embedding_options, find_embedding_service
from server.settings import ReasoningField, Settings

if TYPE_CHECKING:
    from constrained.model.model import Model
    from constrained.model_files.hub_cache import CachedModel
    from server.mcp.hosted_tools import McpServerPool
    from server.models.source import ModelSource
    from server.store.shared_store import SharedStore

SEQUENCES = 4
"""Eight clients wait a quarter of the time that they wait for one sequence, and no less with eight
(`python -m benchmarks.queueing`). llama-server has four, too."""
MOST_NAMED = 5  # models of the cache
LOCAL = ("127.0.0.1", "localhost", "::1")
SWITCH_SECONDS = 0.0005
COLLECTED = (2_000, 10, 100)
"""Objects, then collections of the generation below, until Python's collector looks at one. A full
collection holds up all threads, for 40 to 90 ms beside a schema of thousands of properties; so it
is due behind two million objects that stayed, and not behind 70,000."""
LOG = logging.getLogger("constrained.server")


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


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run, json=False)
    _add_server_options(parser)
    shared.add_model_options(parser)
    shared.add_tool_format(parser)
    shared.add_engine_options(parser, sequences=SEQUENCES)
    shared.add_sampling_options(parser, max_tokens=None)


def _add_server_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("server").add_argument
    add("--host", help=f"address; default: {LOCAL_HOST}, localhost only (LLAMA_ARG_HOST)")
    help = f"port; default: {PORT}; 0: any free one (LLAMA_ARG_PORT)"
    add("--port", type=int, help=help)
    help = "require this API key (repeatable; LLAMA_API_KEY)"
    add("--api-key", action="append", metavar="KEY", help=help)
    add(
        "--api-key-file",
        metavar="FILE",
        help="require one of the API keys in this file, one a line",
    )
    help = (
        "names of the model in the API (comma-separated); replies use the first (LLAMA_ARG_ALIAS)"
    )
    add("-a", "--alias", metavar="NAME", help=help)
    _add_models(parser.add_argument_group("several models").add_argument)
    mcp_options.add_options(parser, approve=False)
    _add_tool_limits(parser.add_argument_group("calls that the server carries out").add_argument)
    add_embedding_options(parser.add_argument_group("embeddings").add_argument)
    help = "field for reasoning in Chat Completions; default: reasoning_content"
    fields = tuple(ReasoningField)
    add("--reasoning-field", choices=fields, help=help)
    help = "the same in llama-server's terms: none is inline, deepseek is reasoning_content"
    add("--reasoning-format", choices=tuple(REASONING_FORMATS), help=help)
    help = "default limit of reasoning tokens; 0: none; -1: no limit (LLAMA_ARG_THINK_BUDGET)"
    add("--reasoning-budget", type=int, metavar="N", help=help)
    add("--timeout", type=float, metavar="SECONDS", help="limit for a request; default: none")
    help = "disconnect clients that neither read nor send for this time; default: 60"
    drain = "time for running requests to end when the server stops; default: 30"
    hosts = "accepted Host names, or *; default: its own on localhost, else any"
    add("--drain", type=float, default=Settings.drain_seconds, metavar="SECONDS", help=drain)
    add("--allowed-hosts", metavar="HOST[,HOST]", help=hosts)
    add("--idle-timeout", type=float, default=Settings.idle_seconds, metavar="SECONDS", help=help)
    help = (
        f"maximum number of waiting requests; further ones get status 503; default: {MOST_WAITING}"
    )
    add("--max-waiting", type=int, default=MOST_WAITING, metavar="N", help=help)
    help = f"maximum size of a request; default: {Settings.max_body >> 20}"
    add("--max-body", type=int, default=Settings.max_body >> 20, metavar="MIB", help=help)
    help = "maximum memory of all other caches together; default: as in docs/server.md; 0: none"
    add("--cache-memory", type=int, metavar="MIB", help=help)
    _add_limits(add)
    help = "do not enforce schemas of tools that say strict: false"
    add("--lenient-tools", action="store_true", help=help)
    help = f"maximum size of an uploaded file; default: {Settings.max_file >> 20}"
    add("--max-file", type=int, default=Settings.max_file >> 20, metavar="MIB", help=help)
    most = Settings.max_files_bytes >> 20
    help = f"maximum size of all files of one API key, in memory; default: {most}"
    add("--max-files", type=int, default=most, metavar="MIB", help=help)
    help = "folder for files and batches, which then survive a restart; default: memory alone"
    add("--batch-dir", metavar="FOLDER", help=help)
    help = (
        "share responses, ids of calls and generated turns with other servers, and keep them for "
        "the next start: sqlite:FILE, or redis://HOST:PORT (extra redis)"
    )
    add("--store", metavar="ADDRESS", help=help)
    help = "allow web pages of this origin (CORS; repeatable); *: any"
    add("--cors-origin", action="append", metavar="ORIGIN", default=[], help=help)
    help = "keep text that agents change in every request; prompts are then computed again"
    add("--keep-volatile", action="store_true", help=help)
    help = "date in prompts, YYYY-MM-DD; default: the day the conversation began"
    add("--date", metavar="DATE", help=help)
    help = "share caches between API keys; response times then reveal what others asked"
    add("--share-cache", action="store_true", help=help)
    add("--show-grammar", action="store_true", help="put the grammar into replies")
    add("--log-prompts", action="store_true", help="write prompts to the log")
    help = "append a trace of each reply to FILE: what decided about each token (constrained trace)"
    add("--trace", metavar="FILE", help=help)
    size = Settings.max_trace_bytes >> 20
    help = f"size at which that file becomes FILE.1, and a new one begins; default: {size}"
    add("--trace-size", type=int, default=size, metavar="MIB", help=help)
    levels = ("debug", "info", "warning", "error")
    add("--log-level", choices=levels, default="info", help="default: info")
    help = "form of the log: lines of text, or of JSON with the figures of each reply"
    add("--log-format", choices=tuple(FORMATTERS), default="text", help=f"{help}; default: text")
    help = "export a span for each reply by OTLP (OTEL_EXPORTER_OTLP_ENDPOINT; extra otel)"
    add("--otel", action="store_true", help=help)
    add("-v", "--verbose", action="store_true", help="same as --log-level debug")
    _add_without_effect(parser)


def _add_tool_limits(add: Callable[..., Any]) -> None:
    """Which calls the server carries out by itself, and limits of a reply in which it does."""
    help = "calls of MCP tools that clients have to approve, whatever they ask for: none, those of "
    help += "tools that may change something (writes), all; default: none"
    add("--mcp-approval", choices=tuple(Approval), default=Approval.NONE, help=help)
    help = f"maximum number of turns in one reply; default: {Settings.max_tool_steps}"
    add("--tool-steps", type=int, default=Settings.max_tool_steps, metavar="N", help=help)
    seconds = Settings.max_tool_seconds
    help = f"time after which the model has to answer; default: {seconds:.0f}"
    add("--tool-seconds", type=float, default=seconds, metavar="SECONDS", help=help)
    size = Settings.max_tool_output >> 10
    help = f"maximum length of a result, in 1,024 characters; the rest is cut; default: {size}"
    add("--tool-output", type=int, default=size, metavar="N", help=help)


def _add_models(add: Callable[..., Any]) -> None:
    """Models beside that of -m, which requests name."""
    help = "offer the GGUF files of this folder by name (LLAMA_ARG_MODELS_DIR)"
    add("--models-dir", metavar="FOLDER", help=help)
    help = "offer models with options of their own, as in docs/server.md (LLAMA_ARG_MODELS_PRESET)"
    add("--models-preset", metavar="FILE", help=help)
    help = f"maximum number of models loaded at once; default: {MOST_MODELS} (LLAMA_ARG_MODELS_MAX)"
    add("--models-max", type=int, metavar="N", help=help)
    help = "maximum memory of all loaded models; default: what is free when the server starts"
    add("--models-memory", type=int, metavar="MIB", help=help)
    help = "unload a model that has no request for this time; default: -1, never"
    add(
        "--sleep-idle-seconds",
        type=float,
        metavar="N",
        help=f"{help} (LLAMA_ARG_SLEEP_IDLE_SECONDS)",
    )


def _add_without_effect(parser: argparse.ArgumentParser) -> None:
    """Options of llama-server that ask for what is always so here, or what is not there: its start
    lines work as they stand, and what has no effect is said."""
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


def _add_limits(add: Callable[..., Any]) -> None:
    """The limits of a request: what exceeds one is refused with its place."""
    limits = (
        ("max_values", "JSON values in a request"),
        ("max_messages", "messages in a request (Responses: items)"),
        ("max_parts", "parts of content and calls of tools in all messages together"),
        ("max_tools", "tools in a request"),
        ("max_choices", "replies to one request (n)"),
    )
    for name, text in limits:
        default = getattr(Settings, name)
        option = f"--{name.replace('_', '-')}"
        add(
            option,
            type=int,
            default=default,
            metavar="N",
            help=f"maximum {text}; default: {default:,}",
        )
    default = Settings.max_repetition
    help = f"default limit of tokens of a value that repeats itself; -1: none; default: {default:,}"
    add("--max-repetition", type=int, default=default, metavar="N", help=help)
    help = "largest max_repetition that a request may ask for; default: -1, any"
    add("--max-repetition-limit", type=int, default=-1, metavar="N", help=help)
    sizes = (
        ("max_schema", "the schema of one tool, or of an answer"),
        ("max_template_kwargs", "chat_template_kwargs"),
        ("max_echoed", "metadata, and of each field that only comes back"),
        ("max_line", "one line of a batch"),
    )
    for name, text in sizes:
        default = getattr(Settings, name) >> 10
        option = f"--{name.replace('_', '-')}"
        help = f"maximum size of {text}, as JSON; default: {default:,}"
        add(option, type=int, default=default, metavar="KIB", help=help)


def _tell_config(options: argparse.Namespace) -> None:
    """Says which options are from a configuration file."""
    parsed: Parsed | None = getattr(options, "parsed", None)
    if parsed is None or not parsed.of_file:
        return
    given = ", ".join(f"{name} ({parsed.sources[name]})" for name in sorted(parsed.of_file))
    LOG.info("options of a configuration file: %s", given)


def complete_options(options: argparse.Namespace) -> Settings:
    """Completes and checks the options of a server.

    Raises:
        RequestError: one of them cannot be.
    """
    check_timeout(options.timeout)
    shared.complete(options)
    if options.cache_memory is not None and options.cache_memory < 0:
        raise RequestError(f"cache_memory is {options.cache_memory}, must be 0 or more")
    settings = read_settings(options)
    shared.read_sampling(options, Sampling())
    shared.choose_sequences(options, SEQUENCES)
    read_options(shared.read_engine_options(options))
    return settings


def start_log(options: argparse.Namespace) -> None:
    """Sets up the log of completed options, and says in it which of them have no effect, and which
    are from a configuration file."""
    set_up_log("debug" if options.verbose else options.log_level, options.log_format)
    _tell_config(options)
    if options.ignored:
        LOG.info("without effect here: %s", " ".join(options.ignored))


def prepare_process(options: argparse.Namespace) -> None:
    """Sets up what holds for the whole process: memory, caches, threads, Python's collector."""
    bound_heap()
    keep_returning()
    if options.cache_memory is not None:
        bound_caches(options.cache_memory * MIB)
    # A thread that compiles a large schema lets others run after so long, not after 5 ms: a request
    # passes from thread to thread dozens of times.
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECTED)


def _run(options: argparse.Namespace) -> int:
    settings = complete_options(options)
    start_log(options)
    if settings.api_keys == () and options.host not in LOCAL:
        text = "no --api-key is set: anybody who can reach %s can use this server"
        LOG.warning(text, options.host)
    return _serve(options, settings)


def _serve(options: argparse.Namespace, settings: Settings) -> int:
    try:
        import uvicorn

        from server.app import make_app
        from server.listening import (
            DELIVERY_SECONDS,
            DrainingServer,
            find_most_connections,
            make_protocol,
            open_socket,
            prepare_socket,
            write_address,
        )
        from server.models.served_models import ModelBounds
    except ModuleNotFoundError as error:
        hint = f"Run: {install_command('server')}"
        raise RequestError(f"the server needs {error.name}", hint=hint) from error

    prepare_process(options)
    failures = list[Exception]()

    def stop(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    sources = find_models(options)
    embedding = find_embedding_service(options, settings)
    mcp = find_servers(options)
    listening = open_socket(options.host, options.port)
    address = f"http://{write_address(options.host, listening.getsockname()[1])}"
    LOG.info("listening on %s%s", address, _describe_start(sources))
    bounds = ModelBounds(
        count=options.models_max,
        memory=_read_models_memory(options),
        idle_seconds=None if options.sleep_idle_seconds < 0 else options.sleep_idle_seconds,
    )
    app = make_app(
        sources,
        settings,
        bounds,
        stop=stop,
        address=address,
        store=find_store(options),
        embedding=embedding,
        mcp=mcp,
    )

    def drain() -> None:
        app.state.batches.drain()
        app.state.models.drain(settings.drain_seconds)

    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_level=options.log_level,
        log_config=None,  # its records go where ours go, see `set_up_log`
        http=make_protocol(settings.idle_seconds, find_most_connections()),
        timeout_graceful_shutdown=ceil(settings.drain_seconds) + DELIVERY_SECONDS,
        ws="none",  # whatever packages are there
        server_header=False,
    )
    server = DrainingServer(config, drain)
    server.run([prepare_socket(listening, settings.idle_seconds)])
    if failures:
        print_error(str(failures[0]))
        return find_code(failures[0])
    return ExitCode.DONE


def find_store(options: argparse.Namespace) -> "SharedStore | None":
    """The store that the options name, if they name one.

    Raises:
        RequestError, StoreError: it cannot be used.
    """
    if options.store is None:
        return None
    from server.store.store_address import open_store

    return open_store(options.store)


def find_servers(options: argparse.Namespace) -> "McpServerPool | None":
    """The MCP servers that the options name; None: none.

    Raises:
        RequestError: one is none, or the package `mcp` is not installed.
    """
    if not mcp_options.has_servers(options):
        return None
    servers = mcp_options.read_servers(options)
    from server.mcp.mcp_pool import McpPool

    return McpPool(servers, options.mcp_timeout, approval=Approval(options.mcp_approval))


def find_models(options: argparse.Namespace) -> "list[ModelSource]":
    """The models that the options name: that of -m or -hf first, with which the server starts; the
    demo model, if they name none."""
    from constrained.gguf.contents import ModelPurpose, read_purpose
    from constrained.model_files.hub_cache import list_cached
    from constrained.model_files.local_models import measure_files
    from constrained.model_files.packaged import find_file
    from server.models.model_files import find_offers, load_model, name_first
    from server.models.source import ModelSource

    others = [offer.make_source() for offer in find_offers(options)]
    if others and not options.model and not options.hf_repo:
        return others

    def load() -> "Model":
        model = load_model(options)
        # What was imported and loaded stays: the collector, which holds up all threads while it
        # looks, need not look at it again (40 ms a time).
        gc.collect()
        gc.freeze()
        return model

    path = shared.find_model(options)
    if path is None:
        other_purposes = (ModelPurpose.EMBEDDINGS, ModelPurpose.RANKING)
        cached = [one for one in list_cached() if read_purpose(one.path) not in other_purposes]
        if cached:
            LOG.info("%s", describe_cached(cached))
    named = name_first(options, path)
    path = path or str(embedded.PATH)
    if not is_address(path):
        find_file(path)  # what is not there shows before anybody can ask
    if (drafts := shared.read_drafts(options)) is not None:
        find_file(drafts.path)
    first = ModelSource(
        named.name,
        load,
        named.aliases,
        file_bytes=measure_files(path),
        path=None if is_address(path) else Path(path),
        preloaded=True,
    )
    return [first, *(source for source in others if source.name != named.name)]


def describe_cached(models: "Sequence[CachedModel]") -> str:
    """The models on this machine that could be served in place of the demo model, in one line."""
    options = [f"-hf {model.name}" for model in models[:MOST_NAMED]]
    rest = len(models) - len(options)
    if rest:
        options.append(f"{rest} more (constrained models)")
    return f"the demo model answers; to serve one that is downloaded: {', '.join(options)}"


def _describe_start(sources: "list[ModelSource]") -> str:
    if any(source.preloaded for source in sources):
        return ", loading the model"
    names = ", ".join(source.name for source in sources)
    return f", with models that are loaded on demand: {names}"


def _read_models_memory(options: argparse.Namespace) -> int | None:
    """The bytes that all loaded models may take; None: nobody knows what there is."""
    if options.models_memory is None:
        return available_memory()
    return options.models_memory << 20


def _read_date(given: str | None) -> datetime | None:
    if given is None:
        return None
    try:
        return datetime.fromisoformat(given)
    except ValueError as error:
        hint = "Write it as YYYY-MM-DD"
        raise RequestError(f"--date is {given!r}", where="/date", hint=hint) from error


def read_settings(options: argparse.Namespace) -> Settings:
    """The settings of the server.

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
        max_messages=options.max_messages,
        max_parts=options.max_parts,
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
    """A number of tokens; None: any, which is written as -1."""
    return None if given == -1 else given


def _read_budget(given: int | None) -> int | None:
    """The most tokens of reasoning; None: as many as the model likes."""
    if given is None or given < 0:
        return None
    return given


def _read_hosts(options: argparse.Namespace) -> tuple[str, ...] | None:
    """The names by which the server may be asked; None: any."""
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
