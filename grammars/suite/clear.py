"""Which turns a parser can be asked about: those whose text has one meaning."""

from typing import Any

from grammars.parse.parser import parse
from grammars.schema.subschemas import is_object
from grammars.suite.reading import Claims
from grammars.suite.strategies import Written
from grammars.wire.format import Format, KeywordArguments, TaggedArguments


def is_clear(written: Written, format: Format, claims: Claims) -> bool:
    """Returns whether the text of a turn has one meaning. It has two if

    - it has reasoning alone: such a turn is not over, and some servers show it as the answer;
    - its content is a call in another envelope, which parsers may read as one, as ours does with
      `recover`;
    - white space around content or reasoning may be the format's, or `space` is not claimed;
    - and, without `exact`, if raw text may be a value of another type, or have escapes.
    """
    turn = written.turn
    if turn.reasoning and not turn.content and not turn.calls:
        return False
    if turn.content and written.tools:
        read = parse(written.text, format, written.tools, recover=True)
        if len(read.calls) > len(turn.calls):
            return False
    texts = (turn.content, turn.reasoning)
    if any(text != text.strip() for text in texts):
        read = parse(written.text, format, written.tools)
        if not claims.space or (read.content, read.reasoning) != texts:
            return False
    return claims.exact or not _has_two_readings(written, format)


def _has_two_readings(written: Written, format: Format) -> bool:
    """Returns whether raw text in the arguments of a turn may be read in two ways."""
    schemas = {tool.name: tool.schema.source for tool in written.tools}
    for call in written.turn.calls:
        text = "".join(value for value in call.arguments.values() if isinstance(value, str))
        match format.hole:
            case TaggedArguments(wrapper=wrapper):
                if _has_text_and_more(schemas.get(call.name)):
                    return True
                if wrapper is not None and "\r" in text:  # XML reads a line feed
                    return True
            # Strings are raw between quotes of one kind, and Python's between those of the other.
            case KeywordArguments(quote=quote) if quote:
                if {quote, "\\", "\n", "\r"} & set(text):
                    return True
            case _:
                pass
    return False


def _has_text_and_more(schema: Any) -> bool:
    """Returns whether an argument may be text or something else."""
    properties: Any = schema.get("properties") if is_object(schema) else None
    members = filter(is_object, properties.values()) if is_object(properties) else ()
    return any(isinstance(one.get("type"), list) or "anyOf" in one for one in members)
