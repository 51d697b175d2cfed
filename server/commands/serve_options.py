"""The options of `constrained serve`, and the settings of the server that they make."""

import argparse
from functools import partial
from typing import Any, Literal

from constrained.cli import options as shared
from constrained.cli import tool_calls
from constrained.cli.declared import add_fields, add_option, read_fields
from constrained.cli.terminal.input import read_text
from constrained.engine.options import SWITCH
from constrained.errors import RequestError
from server.commands.logs import FORMATTERS
from server.hosting.mcp.forced_approval import ForcedApproval
from server.settings import ReasoningField, Settings

LOCAL_HOST = "127.0.0.1"
PORT = 8080
MAX_MODELS = 4
"""The number of models that are kept loaded: llama-server's default."""
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
    _add_address(parser)
    shared.add_model_options(parser)
    shared.add_tool_format(parser)
    shared.add_reasoning_budget(parser)
    shared.add_engine_options(parser, sequences=SEQUENCES)
    shared.add_sampling_options(parser, max_tokens=None)
    tool_calls.add_options(parser, approve=False)
    add_fields(parser, Settings, "advanced: limits")
    _add_log(parser)
    _add_models(parser)
    _add_others(parser)
    _add_without_effect(parser)


def _add_address(parser: argparse.ArgumentParser) -> None:
    """Declares the address of the server, and what its model is called."""
    add = partial(add_option, parser, group="server")
    add("--host HOST $LLAMA_ARG_HOST", "address", default=LOCAL_HOST)
    add("--port PORT $LLAMA_ARG_PORT", "port; 0: any free one", kind=int, default=PORT)
    help = "names of the model in the API (comma-separated); replies use the first"
    add("-a --alias NAME $LLAMA_ARG_ALIAS", help)
    help = "require one of the API keys in this file, one per line"
    add("--api-key-file FILE", help)


def _add_log(parser: argparse.ArgumentParser) -> None:
    """Declares the options for the log."""
    add = partial(add_option, parser, group="debug")
    kind = Literal["debug", "info", "warning", "error"]
    add("--log-level", "lowest level that is logged", kind=kind, default="info")
    help = "form of the log: lines of text, or of JSON with the figures of each reply"
    add("--log-format", help, kind=Literal[*FORMATTERS], default="text")
    add("-v --verbose", "same as --log-level debug", kind=bool)


def _add_models(parser: argparse.ArgumentParser) -> None:
    """Declares further models beside the one of -m, which requests choose by name."""
    add = partial(add_option, parser, group="advanced: several models")
    help = "serve the GGUF files of this folder by name"
    add("--models-dir FOLDER $LLAMA_ARG_MODELS_DIR", help)
    help = "serve models, each with its own options; see docs/server.md"
    add("--models-preset FILE $LLAMA_ARG_MODELS_PRESET", help)
    help = "maximum number of models loaded at once"
    add("--models-max N $LLAMA_ARG_MODELS_MAX", help, kind=int, default=MAX_MODELS)
    help = "maximum memory of all loaded models; default: what is free at the start"
    add("--models-memory MIB", help, kind=int, least=1)
    help = "unload a model that has no request for this time; default: -1, never"
    form = "--sleep-idle-seconds N $LLAMA_ARG_SLEEP_IDLE_SECONDS"
    add(form, help, kind=float, default=-1.0)


def _add_others(parser: argparse.ArgumentParser) -> None:
    """Declares what is no setting of the application."""
    add = partial(add_option, parser)
    help = "the same in llama-server's terms: none is inline, deepseek is reasoning_content"
    add("--reasoning-format", help, group="advanced: prompts", kind=Literal[*REASONING_FORMATS])
    help = "maximum memory of all other caches together; default: see docs/server.md; 0: none"
    add("--cache-memory MIB", help, group="advanced: limits", kind=int, least=0)
    help = (
        "share responses, ids of calls and generated turns with other servers, and keep them "
        "after a restart: sqlite:FILE, or redis://HOST:PORT (extra redis)"
    )
    add("--store ADDRESS", help, group="advanced: files and stores")
    help = (
        "MCP tools that requests may not use, since nobody approves their calls: none, those that "
        "may change something (writes), all"
    )
    kind = ForcedApproval
    group = "advanced: calls that the server executes"
    add("--mcp-approval", help, group=group, kind=kind, default=kind.NONE)


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


def read_settings(options: argparse.Namespace) -> Settings:
    """Makes the settings of the server from its options.

    Raises:
        RequestError: a key is empty, or a limit is too small.
    """
    from constrained.decode.filters.stop_texts import read_stops

    given = read_fields(Settings, options)
    given["api_keys"] = _read_keys(options)
    given["allowed_hosts"] = _read_hosts(options)
    given["reasoning_field"] = _read_reasoning_field(options)
    given["reasoning"] = SWITCH[options.reasoning]
    given["reasoning_budget"] = _read_budget(options.reasoning_budget)
    given["max_tokens"] = options.max_tokens
    given["stop"] = read_stops(options.stop)
    given["template_kwargs"] = shared.read_kwargs(options)
    return Settings(**given)


def _read_reasoning_field(options: argparse.Namespace) -> ReasoningField:
    if options.reasoning_field is not None:
        return ReasoningField(options.reasoning_field)
    return REASONING_FORMATS[options.reasoning_format or "auto"]


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
