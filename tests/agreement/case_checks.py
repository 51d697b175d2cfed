"""What is checked of the turns of a case, whatever wrote them."""

import json

from hypothesis import HealthCheck, reject, settings

from grammars.errors import SchemaError
from grammars.schema.nodes import AnyValue, Array, Node, Number, Object, Schema, String, flatten
from grammars.turn import Choice, Start, Think, Tool, Turn
from grammars.wire.format import Format, NestedArguments, TaggedArguments, find_named
from grammars.wire.formats import FORMATS
from tests.agreement.matching import Masked
from tests.turn_strategies import Case

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
QUIET = settings(suppress_health_check=list(HealthCheck))


def by_name(name: str) -> Format:
    format = find_named(name, FORMATS)
    assert format is not None
    return format


def modes(case: Case) -> list[bool]:
    """Markers as text and, if the data spell none that would be taken for a token, as tokens."""
    data = json.dumps([c.arguments for c in case.turn.calls], ensure_ascii=False)
    data += case.turn.content + case.turn.reasoning
    return [False] if any(name in data for name in case.format.atoms) else [False, True]


def masked(case: Case) -> list[Masked]:
    """The grammar of the case in all modes; rejects schemas that the format refuses because none
    of their values can be written."""
    try:
        return [Masked(case.format, case.tools, case.policy, case.state, m) for m in modes(case)]
    except SchemaError as e:
        if "written" not in e.message:
            raise
        reject()


def spell(turn: Turn) -> object:
    """A turn in which 1, 1.0 and True are three values."""
    calls = [(c.name, json.dumps(c.arguments, sort_keys=True), c.errors) for c in turn.calls]
    return turn.content, turn.reasoning, calls, turn.unfinished


def is_held_whole(tool: Tool, format: Format) -> bool:
    """Can every fitting value be written?

    Between tags, the lexer cannot give up text that may go on for a list that is complete: where
    the same argument may be constrained text or a list, some of the values are out of reach.
    """
    objects = tool.schema.objects
    if isinstance(format.hole, NestedArguments):
        return all(is_plain(node, tool.schema) for node in objects) and len(objects) == 1
    members = [member for o in objects for member in (o.additional, *o.properties)]
    if not isinstance(format.hole, TaggedArguments):
        return True
    for member in members:
        node = getattr(member, "node", member)
        kinds = {type(b) for b in flatten(node, tool.schema.definitions)} if node else set()
        if String in kinds and kinds & {Array, Object, Number}:
            return False
    return len(objects) == 1


def is_plain(node: Node | None, schema: Schema, depth: int = 3) -> bool:
    """Can all values of the node be told by the lexer, where text stands beside tags?"""
    if node is None or depth == 0:
        return True
    branches = list(flatten(node, schema.definitions))
    inner = [child for branch in branches for child in find_children(branch)]
    kinds = [type(branch) for branch in branches]
    mixed = String in kinds and {Array, Object, Number, AnyValue} & set(kinds)
    alone = kinds.count(Object) + kinds.count(Array) <= 1 and (len(kinds) == 1 or not mixed)
    return alone and all(is_plain(child, schema, depth - 1) for child in inner)


def find_children(node: Node) -> list[Node | None]:
    match node:
        case Array():
            return [*node.prefix, node.items]
        case Object():
            return [*(p.node for p in node.properties), node.additional]
        case _:
            return []


def assert_obeys(turn: Turn, case: Case) -> None:
    """Every call is valid, as far as the mask holds its schema, and the policy is kept."""
    policy = case.policy
    for call in turn.calls:
        tool = next(t for t in case.tools if t.name == call.name)
        assert call.valid or tool.schema.report.checked, (call, tool.schema.source)
        assert policy.names is None or call.name in policy.names
    assert not turn.unfinished
    assert len(turn.calls) <= 1 or policy.parallel
    assert not turn.calls or policy.choice is not Choice.NONE
    if policy.choice is Choice.REQUIRED:
        assert turn.calls
        assert not turn.content
    if policy.think is Think.FORBIDDEN or case.state.start is Start.CLOSED:
        assert not turn.reasoning.strip()
