"""What the examples of a run are made of: turns and other values that Hypothesis draws, and turns
that parsers are known to stumble over."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as set_seed
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy

from grammars.parse.parser import parse
from grammars.schema.subschemas import is_object
from grammars.suite.corners import list_tags, list_turns
from grammars.suite.parser_output import as_reading
from grammars.suite.reading import CheckedParser, Claims
from grammars.suite.strategies import Written, wire_texts
from grammars.wire.format import Format, KeywordArguments, TaggedArguments

T = TypeVar("T")
DEFAULT = settings(max_examples=100, database=None)
FEW = 49
"""With so many drawn examples or less, only a part of the corners is read."""
_IGNORED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


@dataclass(frozen=True)
class Draws:
    """Turns for a parser, of the kind that it claims to read. All checks share them."""

    subject: CheckedParser
    chosen: settings
    seed: int | None = None

    def draw(self, strategy: SearchStrategy[T]) -> list[T]:
        """Draws values, as many as the settings say; fewer if there are no more."""
        drawn: list[T] = []

        @settings(
            self.chosen,
            deadline=None,
            database=None,
            verbosity=Verbosity.quiet,
            phases=[Phase.generate],
            suppress_health_check=_IGNORED,
        )
        @given(strategy)
        def keep(value: T) -> None:
            drawn.append(value)

        with suppress(Unsatisfiable):  # the format writes nothing of this kind
            (keep if self.seed is None else set_seed(self.seed)(keep))()
        return drawn

    @cached_property
    def plain(self) -> list[Written]:
        """Turns without tags of the format in their arguments."""
        return self.draw(self.make_turns(tags=False))

    @cached_property
    def tagged(self) -> list[Written]:
        """Turns with a tag of the format in an argument."""
        format = self.subject.format
        if not set(list_tags(format)) & set(map(str.strip, format.texts)):
            return []
        return self.draw(self.make_turns(tags=True).filter(self.has_tags))

    @cached_property
    def plain_corners(self) -> list[Written]:
        """Turns that parsers stumble over, without tags in their arguments."""
        return self._list_corners(tags=False)

    @cached_property
    def tagged_corners(self) -> list[Written]:
        """Turns that parsers stumble over, with a tag in an argument."""
        return self._list_corners(tags=True)

    def thin_out(self, examples: Sequence[T]) -> Sequence[T]:
        """Returns examples that are always read: all of them, or a part if few are wanted."""
        wanted = self.chosen.max_examples
        if wanted > FEW or len(examples) <= wanted:
            return examples
        return examples[:: len(examples) // wanted]

    def has_tags(self, written: Written) -> bool:
        return bool(find_tags(written, self.subject.format))

    def make_turns(self, *, tags: bool) -> SearchStrategy[Written]:
        """Makes a strategy for turns. `tags`: those of the format may be in arguments."""
        subject = self.subject
        drawn = wire_texts(
            subject.format, subject.tools or None, tags=tags, reasoning=subject.claims.reasoning
        )
        # Of a schema with further keywords, hardly any value that is drawn would fit.
        own = self._list_corners(tags=tags) if subject.tools else []
        return (st.sampled_from(own) | drawn if own else drawn).filter(self._is_clear)

    def _is_clear(self, written: Written) -> bool:
        return is_clear(written, self.subject.format, self.subject.claims)

    def _list_corners(self, *, tags: bool) -> list[Written]:
        subject = self.subject
        turns = list_turns(
            subject.format, subject.tools, reasoning=subject.claims.reasoning, tags=tags
        )
        return list(filter(self._is_clear, turns))[:: 1 + FEW // self.chosen.max_examples]


def find_tags(written: Written, format: Format) -> list[str]:
    texts = "\n".join(as_reading(replace(written.turn, content="", reasoning=""), []).texts)
    return [tag for tag in list_tags(format) if tag in texts]


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
    properties: Any = schema.get("properties") if is_object(schema) else None
    members = filter(is_object, properties.values()) if is_object(properties) else ()
    return any(isinstance(one.get("type"), list) or "anyOf" in one for one in members)
