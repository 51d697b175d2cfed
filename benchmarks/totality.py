"""Any text against the parser: does it ever raise, lose text, or depend on the chunks?

    python -m benchmarks.totality [--examples 2000] [--seed 0] [FORMAT ...]

For each format, with recovery and without, the checks of `grammars.suite` run with so many examples
each: turns as a model writes them, also in pieces, damaged and cut. One more check reads random
bytes (invalid UTF-8 is replaced) and tags in any order, whole and in pieces.

Text is lost where a word that no format writes comes out less often than it went in, or more often,
since then it was reported twice. A text that holds none of what the format writes has to come out
as content, to the character.
"""

import argparse
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from hypothesis import strategies as st

from grammars.parse.parser import Parser, collect
from grammars.suite.checks import CHECKS, check_of
from grammars.suite.draws import Draws
from grammars.suite.parser_output import as_reading
from grammars.suite.reading import KEYS, WORDS, CheckedParser, ParserFailure, find_lost
from grammars.suite.run import find_failures, settings
from grammars.suite.strategies import Example, Written, chunkings, tools
from grammars.turn import Tool, Turn
from grammars.wire.format import Format, find_named
from grammars.wire.formats import FORMATS

_SYNTAX = (*' \n"\\{}[]<>/=,:0aé🙂', '{"name": "', '", "arguments": {', "}}", "</", "<|", "```")


def draw_soup(draws: Draws) -> Iterator[Example]:
    """Yields random bytes, and tags in any order."""
    offered = (*_SYNTAX, *WORDS, *KEYS)
    for tools_on_offer in draws.draw(tools()):
        names = [tool.name for tool in tools_on_offer]
        parts = st.sampled_from([*draws.subject.format.texts, *offered, *names])
        soup = st.lists(parts, max_size=20).map("".join)
        noise = st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "replace"))
        few = replace(draws, chosen=settings(draws.chosen, max_examples=1))
        for pieces in few.draw((soup | noise).flatmap(chunkings)):
            text = "".join(pieces)
            yield Example(Written(Turn(), "", tools_on_offer), tuple(pieces or [text]))


@check_of(draw_soup)
def loses_nothing(subject: CheckedParser, example: Example) -> None:
    """Random bytes and tags in any order are read, the same in every cut, and nothing is lost."""
    offered, text = example.written.tools, example.text
    turn = read(subject, offered, [text])
    if fault := find_fault(text, subject.format, turn):
        raise ParserFailure(fault, [text], tools=offered, got=turn)
    if repr(read(subject, offered, example.pieces)) != repr(turn):
        raise ParserFailure("chunks matter", example.pieces, tools=offered, got=turn)


def read(subject: CheckedParser, tools: Sequence[Tool], pieces: Sequence[str]) -> Turn:
    """Returns what the parser reads in these pieces."""
    _, events = subject.listen(tools, pieces)
    return collect(events)


def find_fault(text: str, format: Format, turn: Turn) -> str:
    """Returns what of the text is not in the turn; "" if nothing is missing."""
    ids = "\n".join(call.id or "" for call in turn.calls)
    heard = as_reading(replace(turn, unfinished=f"{turn.unfinished}\n{ids}"), [])
    if lost := find_lost(text, heard, damaged=True, tags=format.structure):
        return lost
    tags = [part for part in ("{", *format.structure) if part.strip()]
    is_plain = not any(tag.strip() in text for tag in tags)
    is_content = turn.content + turn.unfinished == text and not (turn.calls or turn.reasoning)
    return "" if is_content or not is_plain else "it is plain text"


ALL_CHECKS = (*CHECKS, loses_nothing)


def check_format(job: tuple[str, bool], *, examples: int, seed: int) -> list[str]:
    """Returns the reports of all checks that fail.

    Args:
        job: the name of a format, and whether the parser recovers from deviations.
        examples: of each check.
        seed: of Hypothesis.
    """
    name, recover = job
    format = find_named(name, FORMATS)
    assert format is not None
    failures = find_failures(
        lambda tools: Parser(format, tools, recover=recover),
        format,
        settings=settings(max_examples=examples, database=None),
        seed=seed,
        checks=ALL_CHECKS,
    )
    return [failure.report for failure in failures]


def main() -> int:
    """Runs the checks and prints a table; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = [format.name for format in FORMATS]
    parser.add_argument("formats", nargs="*", metavar="FORMAT", choices=[[], *names])
    parser.add_argument("--examples", type=int, default=2000, help="of each check")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    jobs = [(name, recover) for name in options.formats or names for recover in (False, True)]
    check = partial(check_format, examples=options.examples, seed=options.seed)
    faults = 0
    print(f"{'format':<20}{'mode':<10}{'faults':>8}")
    with multiprocessing.Pool() as pool:
        for (name, recover), reports in zip(jobs, pool.imap(check, jobs), strict=True):
            faults += len(reports)
            print(
                f"{name:<20}{'recover' if recover else 'strict':<10}{len(reports):>8}", flush=True
            )
            print("".join(f"{report}\n" for report in reports), end="")
    print(f"{faults} faults in {len(jobs)} runs of {len(ALL_CHECKS)} checks")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
