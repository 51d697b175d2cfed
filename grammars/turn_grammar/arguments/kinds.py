"""The table of the kinds of arguments: which one a hole is."""

from grammars.turn_grammar.arguments.json_object import JsonKind
from grammars.turn_grammar.arguments.keywords import KeywordKind
from grammars.turn_grammar.arguments.kind import ArgumentsKind
from grammars.turn_grammar.arguments.nested import NestedKind
from grammars.turn_grammar.arguments.tagged import TaggedKind
from grammars.wire.format import Format
from grammars.wire.nodes import (
    Hole,
    JsonArguments,
    JsonCall,
    KeywordArguments,
    NestedArguments,
    TaggedArguments,
)


def make_kind(hole: Hole, format: Format) -> ArgumentsKind:
    """Returns the kind of a hole of the format, or of a variant of it."""
    match hole:
        case JsonCall() | JsonArguments():
            return JsonKind(hole, format)
        case TaggedArguments():
            return TaggedKind(hole, format)
        case KeywordArguments():
            return KeywordKind(hole, format)
        case NestedArguments():
            return NestedKind(hole, format)


def find_kind(format: Format) -> ArgumentsKind:
    """Returns the kind of the format's own arguments."""
    return make_kind(format.hole, format)
