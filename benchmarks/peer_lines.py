"""How `benchmarks.peers` talks with a peer's process: a JSON line for each call, and one back.

Needs nothing but Python: it runs in the virtual environment of each peer.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TextIO


@dataclass(frozen=True)
class Ask:
    """A call.

    Args:
        way: which of the ways that the peer has; the name of a row of the table.
        messages: what is asked.
        prompt: the same, rendered.
        schema: of the answer.
        text: what the answer is made to be.
        stream: take the time of the first text instead of that of the whole answer.
    """

    way: str
    messages: list[dict[str, str]]
    prompt: str
    schema: dict[str, Any]
    text: str
    stream: bool


@dataclass(frozen=True)
class Answer:
    """What came of it.

    Args:
        text: the answer.
        seconds: until it was whole, or until its first text was there.
        prompt_tokens, tokens: of the prompt and of the answer.
        passes: runs of the model, those of the prompt included.
    """

    text: str
    seconds: float
    prompt_tokens: int
    tokens: int
    passes: int


def serve(answer: Callable[[Ask], Answer], asks: TextIO = sys.stdin) -> None:
    """Answers until there is nothing more to read."""
    answers, sys.stdout = sys.stdout, sys.stderr  # for what libraries print
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in asks:
        print(json.dumps(asdict(answer(Ask(**json.loads(line))))), file=answers, flush=True)
