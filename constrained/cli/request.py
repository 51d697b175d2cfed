"""Makes the request that the options of `call` or `chat` describe, and loads its model."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from constrained.cli import options as shared
from constrained.cli.declared import add_option, complete
from constrained.cli.terminal.input import read_json, read_text
from constrained.cli.terminal.output import (
    Report,
    describe_checked,
    describe_findings,
    show_progress,
)
from constrained.engine.options import MAX_WAITING, read_options
from constrained.engine.sampling import Sampling
from constrained.errors import RequestError
from constrained.model_files.local_models import measure_files
from constrained.prompt.job import MAX_REPEATED, Envelopes, Recall
from constrained.remote.address import is_address
from grammars.turn import Answer, JsonAnswer, KeyOrder, Think

if TYPE_CHECKING:
    from constrained.agent.mcp.servers import McpServers
    from constrained.agent.model import Model
    from constrained.agent.search.tool_search import ToolSearch
    from constrained.model.call_options import CompiledTurnOptions
    from constrained.model.compile.compiled_turn import CompiledTurn
    from constrained.model.confidence_policy import ConfidencePolicy
    from constrained.prompt.job import Job
    from grammars.wire.format import Format


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of a request and its model."""
    shared.add_tool_options(parser)
    shared.add_answer_options(parser)
    shared.add_model_options(parser)
    shared.add_tool_format(parser)
    shared.add_reasoning_options(parser)
    shared.add_engine_options(parser)
    shared.add_sampling_options(parser)
    add = partial(add_option, parser, group="advanced: calls")
    add("--max-calls N", "maximum number of calls in a turn", kind=int)
    help = "maximum tokens of a value that repeats itself; -1: no limit"
    add("--max-repetition N", help, kind=int, default=MAX_REPEATED)
    help = "calls in another form than the model's own: kept, rewritten in it, or text"
    add("--envelopes", help, kind=Envelopes, default=Envelopes.KEPT)
    help = "replace calls of which the model is less sure than P (0 to 1); needs --unsure"
    add("--min-confidence P", help, kind=float)
    help = "what replaces such a call: a question to the user (ask), or an answer (decline)"
    add("--unsure", help, kind=Literal["ask", "decline"])
    help = "let the model search the tools, instead of having all of them in the prompt"
    add("--search-tools", help, kind=bool)


def read_confidence_policy(options: argparse.Namespace) -> "ConfidencePolicy":
    """Returns what happens to calls that the model is unsure of."""
    from constrained.model.confidence_policy import ConfidencePolicy, Unsure, check_confidence

    least = check_confidence(options.min_confidence)
    if (least is None) != (options.unsure is None):
        missing = "--min-confidence, from 0 to 1" if least is None else "--unsure ask or decline"
        raise RequestError("--min-confidence and --unsure belong together", hint=f"Give {missing}")
    return ConfidencePolicy() if least is None else ConfidencePolicy(least, Unsure(options.unsure))


def read_choice_options(
    options: argparse.Namespace, job: "Job", model: "Model"
) -> "CompiledTurnOptions":
    """Returns the options of `Model.stream_turn` that choose which turn becomes the reply to a
    job."""
    policy = read_confidence_policy(options)
    chosen: CompiledTurnOptions = {}
    if policy.min_confidence is not None:
        chosen["min_confidence"] = policy.min_confidence
        chosen["instead"] = model.compile(policy.change_job(job))
    return chosen


def list_tools(job: "Job", servers: "McpServers | None") -> list[Any]:
    """Returns the tools of a job and the current tools of MCP servers."""
    tools = list[Any](job.tools)
    if servers is not None:
        tools += servers.tools()
    return tools


def read_search(
    options: argparse.Namespace, job: "Job", servers: "McpServers | None"
) -> "ToolSearch | None":
    """Returns the search of the tools of a job and of MCP servers; None: all of them are in the
    prompt."""
    if not options.search_tools:
        return None
    from constrained.agent.search.tool_search import ToolSearch

    tools = list_tools(job, servers)
    if not tools:
        hint = "Give --tools, --mcp or --mcp-config"
        raise RequestError("--search-tools: there are no tools to search", hint=hint)
    return ToolSearch(tools)


def _read_tool_format(options: argparse.Namespace) -> "Format | None":
    """Returns the format of --tool-format; None: the option is not given."""
    if options.tool_format is None:
        return None
    from constrained.prompt.format_selection.selection import read_tool_format

    return read_tool_format(options.tool_format)


def read_request(options: argparse.Namespace) -> "Job":
    """Returns the job that the options describe, without messages; completes the options.

    Raises:
        Error: an option is wrong; this is found before a model is loaded.
    """
    from constrained.decode.filters.stop_texts import read_stops
    from constrained.prompt.job import Job, check_job
    from constrained.prompt.tools.shapes import read_choice

    tools = shared.read_tool_file(options)
    kwargs = shared.read_kwargs(options)
    _read_tool_format(options)
    answer = _read_answer(options)
    shared.read_sampling(options, Sampling())
    read_stops(options.stop)
    read_confidence_policy(options)
    if options.max_tokens is not None and options.max_tokens < 1:
        raise RequestError(f"-n is {options.max_tokens}: a reply needs max_tokens of 1 or more")
    complete(options)
    read_options(shared.read_engine_options(options))
    job = Job(
        messages=(),
        tools=tools,
        tool_choice=read_choice(options.tool_choice),
        parallel=not options.no_parallel,
        max_calls=options.max_calls,
        max_repetition=None if options.max_repetition == -1 else options.max_repetition,
        envelopes=Envelopes(options.envelopes),
        think=shared.THINKING[options.reasoning],
        template_kwargs=kwargs,
        answer=answer,
        reasoning_budget=None if options.reasoning_budget == -1 else options.reasoning_budget,
        reasoning_close=options.reasoning_close,
        thinking_tags=not options.no_thinking_tags,
        require_nonempty=options.require_nonempty,
        key_order=KeyOrder(options.key_order),
        recall=Recall(options.recall),
    )
    check_job(job)
    return job


def _read_answer(options: argparse.Namespace) -> Answer | None:
    """Returns the constraint on the content, or None; argparse allows at most one of the
    options."""
    from constrained.prompt.answers import read_target

    if options.json_schema is not None:
        return read_target(schema=_read_schema(options.json_schema)).answer
    if options.regex is not None:
        return read_target(regex=options.regex).answer
    if options.choice is not None:
        return read_target(choice=options.choice).answer
    if options.grammar is not None:
        return read_target(grammar=read_text(options.grammar, "--grammar")).answer
    return None


def _read_schema(given: str) -> Any:
    name, text = "--json-schema", given
    if not given.lstrip().startswith("{"):
        name, text = given, read_text(given, "--json-schema")
    schema = read_json(text, name)
    if not isinstance(schema, dict):
        raise RequestError(f"{name} is not a JSON Schema", hint='Write {"type": "object", ...}')
    return schema


def load_model(options: argparse.Namespace) -> "Model":
    """Loads the model that the options name, or the demo model of the package."""
    from constrained.agent.loading import load

    path = shared.find_model(options)
    with show_progress("loading") as report:
        return load(
            path,
            chat_template=shared.read_template(options),
            tool_format=_read_tool_format(options),
            deterministic=options.deterministic,
            cache_ram=options.cache_ram,
            cache_dir=options.cache_dir,
            draft=not options.no_draft,
            max_waiting=getattr(options, "max_waiting", MAX_WAITING),
            tokenizer=options.tokenizer,
            # The variable may be meant for another command.
            api_key=options.backend_key if is_address(path) else None,
            engine_timeout=options.backend_timeout,
            progress=_report_bytes(path, report),
            **shared.read_engine_options(options),
        )


def _report_bytes(path: str | None, report: Report | None) -> Callable[[float], None] | None:
    """Converts the loaded fraction of a file to bytes; None: there is no report."""
    if report is None:
        return None
    size = measure_files(path)
    return lambda part: report(part * size, size)


def find_limit(max_tokens: int | None, turn: "CompiledTurn", model: "Model") -> int:
    """Returns the maximum number of tokens of a reply; None: as many as fit into the context."""
    if max_tokens is not None:
        return max_tokens
    return max(1, model.engine.context_length - len(turn.tokens))


def fit(job: "Job", model: "Model") -> "Job":
    """Returns the job without a request for reasoning, if the model's template has no reasoning
    block."""
    if model.compiler.format.reasoning is None:
        return replace(job, think=Think.OPTIONAL)
    return job


NO_CALL = (
    "no call was made, which is common for small models with this template: try --tool-choice "
    "required, or --chat-template-file FILE"
)
"""The note after a reply without calls where small models hardly call."""


def describe(
    job: "Job",
    model: "Model",
    options: argparse.Namespace,
    *,
    turn: "CompiledTurn | None" = None,
) -> Iterator[str]:
    """Writes notes for the user: options that have no effect, and what the mask does not enforce.
    `turn` is the turn, if there is only one; it has all refused tools."""
    from constrained.prompt.tools.offer import read_offer

    yield from model.notices
    if model.compiler.format.reasoning is None:
        ignored = "the chat template has no reasoning block: {} is ignored"
        if options.reasoning != "auto":
            yield ignored.format("--reasoning")
        if job.reasoning_budget is not None:
            yield ignored.format("--reasoning-budget")
    offer = turn or read_offer(job.tools)
    yield from map(str, offer.refused)
    yield from describe_checked(offer.tools)
    if isinstance(job.answer, JsonAnswer):
        yield from describe_findings("the answer", job.answer.schema)
