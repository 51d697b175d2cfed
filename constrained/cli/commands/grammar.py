"""`constrained grammar`: prints the grammar of a request, in Lark for llguidance."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from constrained.cli import options as shared
from constrained.cli.declared import complete
from constrained.cli.terminal.output import describe_checked, print_data, print_json, print_notes
from constrained.errors import RequestError
from grammars.turn import KeyOrder, Think

if TYPE_CHECKING:
    from constrained.inspect.replay.replay_context import ReplayContext


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run)
    parser.add_argument("--format", metavar="NAME", help="format of calls, without a model")
    parser.add_argument(
        "--markers",
        choices=("text", "token"),
        help="without a model: whether markers are text or special tokens; default: text",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the grammar, its format, start state and markers as JSON",
    )
    shared.add_tool_options(parser, required=True)
    shared.add_model_options(parser)
    shared.add_tool_format(parser)


def _run(options: argparse.Namespace) -> int:
    from constrained.prompt.tools.offer import read_offer
    from constrained.prompt.tools.shapes import read_choice, read_policy
    from grammars.turn_grammar.turn import build_turn

    raw = shared.read_tool_file(options)
    kwargs = shared.read_kwargs(options)
    context = _read_context(options, kwargs)
    offer = read_offer(raw, nonempty=options.require_nonempty)
    think = Think.OPTIONAL
    if context.format.reasoning is not None:
        think = shared.THINKING[options.reasoning]
    choice = read_choice(options.tool_choice)
    policy = read_policy(choice, parallel=not options.no_parallel, think=think)
    policy = replace(policy, key_order=KeyOrder(options.key_order))
    state = context.find_state({"chat_template_kwargs": kwargs}, offer.shown)
    turn = build_turn(context.format, offer.tools, policy=policy, state=state, markers=context.ids)
    print_notes(map(str, offer.refused))
    print_notes(describe_checked(offer.tools))
    if options.json:
        known = {"format": context.format.name, "start_state": state.start.value}
        print_json({**known, "markers": context.ids, "grammar": turn.lark})
    else:
        print_data(turn.lark.rstrip("\n"))
    return 0


def _read_context(options: argparse.Namespace, kwargs: Mapping[str, Any]) -> "ReplayContext":
    from constrained.inspect.replay.replay_context import read_context

    if options.format:
        if options.tool_format:
            raise RequestError("--format and --tool-format cannot be combined")
        if options.model or options.hf_repo or options.chat_template_file:
            hint = "Leave --format out: the chat template decides"
            raise RequestError("--format cannot be combined with a model or template", hint=hint)
        return read_context({"format": options.format, "markers": options.markers})
    model = None
    if not options.chat_template_file or options.model or options.hf_repo:
        complete(options)
        model = shared.find_model(options)
    template = shared.read_template(options)
    if not model and template is None:
        hint = "Give --format, --chat-template-file, -m or -hf"
        raise RequestError("no wire format, chat template or model is given", hint=hint)
    if model and options.markers:
        raise RequestError(
            "--markers has no effect with a model",
            hint="Leave it out: the vocabulary of the model decides",
        )
    row = {"model": model, "template": template}
    row |= {"markers": options.markers, "tool_format": options.tool_format}
    row |= {"chat_template_kwargs": kwargs}
    return read_context(row)
