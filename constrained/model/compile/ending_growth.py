"""How much longer the shortest ending of a turn can become, estimated in tokens."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from constrained.engine.vocabulary.vocabulary import Vocabulary
from grammars.schema.extent import bound_length, bound_rest
from grammars.schema.nodes import Schema
from grammars.turn import Answer, ChoiceAnswer, JsonAnswer, RegexAnswer, Tool

MARGIN = 1.5  # tokens of arguments may be shorter than those of schemas
UNBOUNDED = 10**9  # tokens
SAMPLE = 4_000  # characters of the schemas, enough to estimate how long tokens are


@dataclass(frozen=True)
class EndingGrowth:
    """How many tokens the shortest ending can grow, at most: by one more token (those of the
    longest call or answer), and by any text (None: no limit)."""

    of_token: int
    of_text: int | None


def estimate_growth(
    tools: Sequence[Tool], answer: Answer | None, vocabulary: Vocabulary
) -> EndingGrowth:
    if isinstance(answer, RegexAnswer):
        return EndingGrowth(UNBOUNDED, None)  # one character can make any number necessary
    schemas = [tool.schema for tool in tools]
    if isinstance(answer, JsonAnswer):
        schemas.append(answer.schema)
    names = [tool.name for tool in tools]
    options = answer.options if isinstance(answer, ChoiceAnswer) else ()
    bytes_per_token = _measure_tokens(schemas, vocabulary)

    def count_tokens(sizes: Iterable[int]) -> int:
        longest = max(sizes, default=0) + _measure_longest(names)
        return ceil(MARGIN * max(longest, _measure_longest(options)) / bytes_per_token)

    rests = [bound_rest(schema) for schema in schemas]
    bounded = [rest for rest in rests if rest is not None]
    of_text = count_tokens(bounded) if len(bounded) == len(rests) else None
    return EndingGrowth(count_tokens(map(bound_length, schemas)), of_text)


def _measure_tokens(schemas: Sequence[Schema], vocabulary: Vocabulary) -> float:
    """Returns the average bytes of the tokens in the schemas, at least 1."""
    sources = json.dumps([schema.source for schema in schemas], ensure_ascii=False)
    sample = sources[:SAMPLE]
    return max(1, len(sample.encode()) / len(vocabulary.encode(sample)))


def _measure_longest(texts: Iterable[str]) -> int:
    return max((len(text.encode()) for text in texts), default=0)
