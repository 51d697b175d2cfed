"""What completes the turns of a request."""

from collections.abc import Mapping, Sequence

from grammars.turn import Policy, State, Tool
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format


def turn_completer(
    format: Format,
    tools: Sequence[Tool],
    policy: Policy,
    state: State,
    markers: Mapping[str, int] | None = None,
) -> Completer:
    return Completer(build_turn(format, tools, policy, state, markers))
