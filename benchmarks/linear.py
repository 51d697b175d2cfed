"""Is the parser linear? Time per byte of a call whose argument is long, and ten times longer.

    python -m benchmarks.linear [--repeat 3] [--short 100000] [--long 1000000]

The text arrives in pieces of 1 kB, streamed and with recovery; so does content that is no call. A
ratio of 1 is linear. Exit code 1 if the median of a ratio is over 2.5.
"""

import argparse
import statistics
import time
from collections.abc import Iterator

from benchmarks.inputs.texts import TOOLS
from grammars.errors import RenderError
from grammars.formats import FORMATS
from grammars.parse.parser import Parser
from grammars.render import render
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Format

LIMIT = 2.5
PIECE = 1000
LINE = 'a line, "quoted" <b>&amp;</b> {1: [2]}\n'


def measure(format: Format, text: str, mode: str) -> float:
    """Nanoseconds of this process per byte."""
    parser = Parser(format, TOOLS, recover=mode == "recover", stream=mode == "stream")
    start = time.process_time()
    for at in range(0, len(text), PIECE):
        parser.feed(text[at : at + PIECE])
    parser.close()
    return (time.process_time() - start) / len(text) * 1e9


def write(format: Format, size: int) -> Iterator[tuple[str, str]]:
    """Long texts, and what they are: a call, a call that is cut, content."""
    value = LINE * (size // len(LINE))
    call = ToolCall("write", {"note": value}, id="abcdefgh0")
    try:
        text = render(Turn(calls=(call,)), format, TOOLS)
    except RenderError:
        return
    yield "call", text
    yield "cut", text[: -len(text) // 20]
    yield "content", "So: " + value


def main() -> int:
    """Prints medians for each format; 1 if one grows faster than its text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--short", type=int, default=100_000)
    parser.add_argument("--long", type=int, default=1_000_000)
    options = parser.parse_args()
    worst = 0.0
    print(f"{'format':<18}{'text':<9}{'mode':<9}{'ns/byte':>9}{'longer':>9}{'ratio':>7}")
    for format in FORMATS:
        sizes = (write(format, options.short), write(format, options.long))
        for (kind, short), (_, long) in zip(*sizes, strict=True):
            for mode in ("stream", "recover"):
                both = [
                    statistics.median(measure(format, text, mode) for _ in range(options.repeat))
                    for text in (short, long)
                ]
                ratio = both[1] / both[0]
                worst = max(worst, ratio)
                row = f"{format.name:<18}{kind:<9}{mode:<9}{both[0]:>9.0f}{both[1]:>9.0f}"
                print(f"{row}{ratio:>7.2f}", flush=True)
    print(f"the worst ratio is {worst:.2f}")
    return 1 if worst > LIMIT else 0


if __name__ == "__main__":
    raise SystemExit(main())
