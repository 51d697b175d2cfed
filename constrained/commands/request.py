"""What the options of a command ask of a model, and that model; shared by `call` and `chat`."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from constrained.commands import engine
from constrained.commands import options as shared
from constrained.commands.input import read_json, read_text
from constrained.commands.output import describe_checked, describe_findings
from constrained.decode.stop_texts import read_stops
from constrained.engine.options import MOST_WAITING, read_options
from constrained.engine.protocol import Sampling
from constrained.errors import RequestError
from constrained.job import Recall
from grammars.turn import Answer, JsonAnswer, KeyOrder, Think

if TYPE_CHECKING:
    from constrained.compile.compiled_turn import CompiledTurn
    from constrained.job import Job
    from constrained.model.model import Model
    from grammars.wire.format import Format


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares all that a request and its model need."""
    shared.add_tool_options(parser)
    shared.add_answer_options(parser)
    shared.add_model_options(parser)
    shared.add_tool_format(parser)
    shared.add_reasoning_options(parser)
    engine.add_engine_options(parser)
    shared.add_sampling_options(parser)


def _read_tool_format(options: argparse.Namespace) -> "Format | None":
    """The format that --tool-format names, or None.

    Raises:
        RequestError, FormatError: there is no such format, or its file cannot be read.
    """
    if options.tool_format is None:
        return None
    from constrained.format_selection.chosen import read_tool_format

    return read_tool_format(options.tool_format)


def read_request(options: argparse.Namespace) -> "Job":
    """The job that the options describe, its messages empty; completes the options.

    Raises:
        Error: what they say is wrong; found here, before a model is loaded.
    """
    from constrained.job import Job, check_job

    tools, kwargs = shared.read_tool_file(options), shared.read_kwargs(options)
    _read_tool_format(options)
    answer = _read_answer(options)
    shared.read_sampling(options, Sampling())
    read_stops(options.stop)
    if options.max_tokens < 1:
        raise RequestError(f"-n is {options.max_tokens}: a reply needs max_tokens of 1 or more")
    shared.complete(options)
    read_options(engine.read_engine_options(options))
    job = Job(
        (),
        tools,
        shared.read_choice(options),
        not options.no_parallel,
        shared.THINKING[options.reasoning],
        kwargs,
        answer,
        None if options.reasoning_budget == -1 else options.reasoning_budget,
        options.reasoning_close,
        not options.no_thinking_tags,
        options.require_nonempty,
        key_order=KeyOrder(options.key_order),
        recall=Recall(options.recall),
    )
    check_job(job)
    return job


def _read_answer(options: argparse.Namespace) -> Answer | None:
    """What content has to be, if the options say so; they exclude each other."""
    given: dict[str, Any] = {"regex": options.regex, "choice": options.choice}
    if options.grammar is not None:
        given["grammar"] = read_text(options.grammar, "--grammar")
    if options.json_schema is not None:
        given["schema"] = _read_schema(options.json_schema)
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        return None
    from constrained.answers import read_target

    return read_target(**given).answer


def _read_schema(given: str) -> Any:
    is_text = given.lstrip().startswith("{")
    name = "--json-schema" if is_text else given
    schema = read_json(given if is_text else read_text(given, "--json-schema"), name)
    if not isinstance(schema, dict):
        raise RequestError(f"{name} is no JSON Schema", hint='Write {"type": "object", ...}')
    return schema


def load_model(options: argparse.Namespace) -> "Model":
    """The model that the options name, or that of the package.

    Raises:
        Error: it cannot be loaded.
    """
    from constrained.model.loading import load

    return load(
        shared.find_model(options),
        chat_template=shared.read_template(options),
        tool_format=_read_tool_format(options),
        deterministic=options.deterministic,
        cache_ram=options.cache_ram,
        cache_dir=options.cache_dir,
        draft=not options.no_draft,
        max_waiting=getattr(options, "max_waiting", MOST_WAITING),
        progress=shared.show_progress("loading"),
        **engine.read_engine_options(options),
    )


def fit(job: "Job", model: "Model") -> "Job":
    """The same job, without thinking where the model's template knows none."""
    if model.compiler.format.reasoning is None:
        return replace(job, think=Think.OPTIONAL)
    return job


def describe(
    job: "Job", model: "Model", options: argparse.Namespace, turn: "CompiledTurn | None" = None
) -> Iterator[str]:
    """What was asked for and is not so, and what the mask does not hold.

    Args:
        turn: the turn, where there is but one; it knows all tools that are refused.
    """
    from constrained.tools.offer import read_offer

    yield from model.notices
    if model.compiler.format.reasoning is None:
        for name, is_given in (
            ("--reasoning", options.reasoning != "auto"),
            ("--reasoning-budget", job.reasoning_budget is not None),
        ):
            if is_given:
                yield f"the chat template has no reasoning block: {name} is ignored"
    length = model.engine.context_length
    if (options.ctx_size or 0) > length:
        yield f"the model was trained on a context of {length} tokens: -c is lowered to that"
    offer = turn or read_offer(job.tools)
    yield from map(str, offer.refused)
    yield from describe_checked(offer.tools)
    if isinstance(job.answer, JsonAnswer):
        yield from describe_findings("the answer", job.answer.schema)
