"""What the examples of a run are made of: turns and other values that Hypothesis draws, and turns
that parsers are known to stumble over."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as set_seed
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy

from grammars.suite.clear import is_clear
from grammars.suite.corners import list_tags, list_turns
from grammars.suite.parser_output import as_reading
from grammars.suite.reading import CheckedParser
from grammars.suite.strategies import Written, wire_texts
from grammars.wire.format import Format

T = TypeVar("T")
DEFAULT = settings(max_examples=100, database=None)
FEW = 49
"""With so many drawn examples or less, only a part of the corners is read."""
_IGNORED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


@dataclass(frozen=True)
class Draws:
    """Turns for a parser, of the kind that it claims to read. All checks share them. With a seed,
    the same ones are drawn again."""

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
        """Makes a strategy for turns; with `tags`, values of arguments may contain those of the
        format."""
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
    """Returns the tags of the format in the arguments of a turn."""
    texts = "\n".join(as_reading(replace(written.turn, content="", reasoning=""), []).texts)
    return [tag for tag in list_tags(format) if tag in texts]
