"""How `benchmarks.peers` and `benchmarks.real` talk with a peer's process: a JSON line for each
call, and one back.

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
        text: what the answer is made to be; None: what the model says.
        stream: take the time of the first text instead of that of the whole answer.
        max_tokens: of the answer.
        temperature: of the sampler; 0: always the likeliest token.
    """

    way: str
    messages: list[dict[str, str]]
    prompt: str
    schema: dict[str, Any]
    text: str | None
    stream: bool
    max_tokens: int = 1024
    temperature: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What came of it.

    Args:
        text: the answer.
        seconds: until it was whole, or until its first text was there.
        prompt_tokens, tokens: of the prompt and of the answer.
        passes: runs of the model, those of the prompt included.
        error: why there is no answer; "" if there is one.
    """

    text: str
    seconds: float
    prompt_tokens: int
    tokens: int
    passes: int
    error: str = ""


def serve(answer: Callable[[Ask], Answer], asks: TextIO = sys.stdin) -> None:
    """Answers until there is nothing more to read."""
    answers, sys.stdout = sys.stdout, sys.stderr  # for what libraries print
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in asks:
        try:
            made = answer(Ask(**json.loads(line)))
        except Exception as e:  # whoever asked decides what a failure means
            error = f"{type(e).__name__}: {e}"
            made = Answer("", seconds=0.0, prompt_tokens=0, tokens=0, passes=0, error=error)
        print(json.dumps(asdict(made)), file=answers, flush=True)
