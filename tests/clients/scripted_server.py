"""A server for agents: its model says what they need to go on, whatever else their prompts have.

`python -m tests.clients.scripted_server --port PORT [-np N]`. A model of a few million parameters
makes nothing of the prompts of agents, which have tens of thousands of tokens. If a message of the
request is not in its prompt, this one says so in place of its answer.
"""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import uvicorn

from constrained.agent.model import Model
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.prompt.template.chat_template import ChatTemplate
from server.app import make_app
from tests.clients.arrival import SentTexts
from tests.clients.programs.agent_tasks import CODE, COMMAND, GREETED, GREETING
from tests.scripted_model import BYTES, TURN
from tests.templates import HERMES, hermes_call

CONTEXT = 400_000  # bytes, each a token
OPENED = b"<think>\n"
LOST = "A message is not in the prompt."
THOUGHT = "I see.\n</think>\n\n"


@dataclass(frozen=True)
class Rule:
    """What the model says where a text is in the prompt."""

    seen: str
    said: str


def call_shell(tool: str, *, beside: str = "", **arguments: str | list[str]) -> Rule:
    """Reads the file with the code by the shell of an agent, if it offers this tool; or, if several
    agents name theirs so, the tool `beside` it."""
    return Rule(f'"name": "{beside or tool}"', hermes_call(tool, json.dumps(arguments)))


RULES = (
    Rule(CODE, CODE),  # the result of the call
    Rule(GREETING, GREETED),
    call_shell("exec_command", cmd=COMMAND),
    call_shell("Bash", command=COMMAND, description="Read the notes"),
    call_shell("bash", beside="read_bash", command=COMMAND, description="Read the notes"),
    call_shell("bash", command=COMMAND),
    call_shell("run_shell_command", command=COMMAND),
    call_shell("run_commands", commands=[COMMAND]),
    call_shell("shell", command=COMMAND),
    Rule("", "Notes"),  # a title for the conversation
)
"""The first counts whose text is there."""


def decide(arrive: Callable[[str], bool], sequence: int, tokens: Sequence[int]) -> np.ndarray:
    """The logits after these tokens.

    Args:
        arrive: says whether all messages of a request are in a prompt.
    """
    text = BYTES.text(tokens)
    start = [found.end() for found in re.finditer(TURN, text)][-1]
    prompt = text[:start].decode("utf-8", "replace")
    said = next(rule.said for rule in RULES if rule.seen in prompt) if arrive(prompt) else LOST
    if text.startswith(OPENED, start):
        start += len(OPENED)
        said = THOUGHT + said
    return scripted_logits(BYTES, said, start)(sequence, tokens)


def make_model(sequences: int, arrive: Callable[[str], bool] = lambda prompt: True) -> Model:
    """The model, for so many requests at a time."""
    logits = partial(decide, arrive)
    engine = ScriptedEngine(BYTES, logits, context_length=CONTEXT, max_sequences=sequences)
    return Model(engine, ChatTemplate(HERMES))


def main() -> None:
    """Serves on this machine alone; further options of the real server change nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("-np", type=int, default=1)
    options, _ = parser.parse_known_args()

    sent = SentTexts()
    uvicorn.run(
        sent.watch(make_app(partial(make_model, options.np, sent.arrive))),
        host="127.0.0.1",
        port=options.port,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
