"""What the test suite for parsers finds in a parser that looks right: twelve lines around `re`.

python -m examples.own_parser
"""

import json
import re
from collections.abc import Callable, Sequence

from grammars.suite import Claims, Reading, find_failures
from grammars.turn import Tool
from grammars.wire.formats import HERMES

CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
THOUGHT = re.compile(r"<think>\n(.*?)\n</think>\n\n", re.DOTALL)


def parse(text: str) -> Reading:
    """Reads Hermes JSON with two regular expressions."""
    thought = THOUGHT.match(text)
    text = THOUGHT.sub("", text)
    calls = [json.loads(call) for call in CALL.findall(text)]
    return Reading(
        content=CALL.sub("", text).strip(),
        reasoning=thought[1] if thought else "",
        calls=[(call["name"], call["arguments"]) for call in calls],
    )


def make_parser(tools: Sequence[Tool]) -> Callable[[str], Reading]:
    """The adapter: makes a parser for the tools on offer; this one does not look at them."""
    return parse


def main() -> None:
    """Prints what the suite finds."""
    claims = Claims(space=False)  # it removes the white space around content
    found = find_failures(make_parser, HERMES, claims=claims, seed=0)
    for failure in found:
        print(failure.report)
        print()
    checks = dict.fromkeys(failure.check for failure in found)
    print(f"{len(found)} findings of {', '.join(checks)}")


if __name__ == "__main__":
    main()
