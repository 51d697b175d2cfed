"""Whether every message of a conversation is in the prompt, in its order.

    python -m benchmarks.arrival [PATH ...] [--details]

PATHs are folders of chat templates, or JSON Lines files with `name` and `template`; without one,
the templates of llama.cpp. Each template gets 22 conversations that clients send, with a word of
its own in each message. Columns: conversations whose words are all there in order (a result may
follow its call directly); moved, all there in another order;
lost, a word is missing; refused, an error. --details names the rows of the last three, with the
error.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from benchmarks.inputs.sources import read_templates
from constrained.engine.model_files.embedded import PATH
from constrained.inspect.replay.replay_context import read_context
from constrained.model.compile.compiler import Compiler
from constrained.prompt.job import Job
from constrained.prompt.template.arrival_probes import (
    CONVERSATIONS,
    Fate,
    Message,
    choose_tools,
    judge,
)
from constrained.prompt.template.chat_template import ChatTemplate
from examples.random_model.sources import models_directory
from grammars.errors import Error


def try_conversation(compiler: Compiler, messages: Sequence[Message]) -> tuple[Fate, str]:
    """Returns what becomes of a conversation, and the error or the words."""
    try:
        prompt = compiler.compile(Job(messages, choose_tools(messages) or ())).prompt.text
    except Error as error:
        return Fate.REFUSED, str(error)
    return judge(messages, prompt)


def main() -> None:
    """Prints a row for each conversation."""
    parser = argparse.ArgumentParser(description="Whether every message is in the prompt.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--details", action="store_true", help="name what is not in order")
    options = parser.parse_args()
    vocabulary = read_context({"model": str(PATH)}).vocabulary
    counts: dict[str, Counter[Fate]] = {name: Counter() for name in CONVERSATIONS}
    details: list[str] = []
    paths = options.paths or [models_directory() / "templates"]
    for name, source, tokens in chain.from_iterable(map(read_templates, paths)):
        template = ChatTemplate(source, name=name, **tokens)
        try:
            compiler = Compiler(vocabulary, template)
        except Error as error:
            details.append(f"{name}: {error}")
            continue
        for kind, messages in CONVERSATIONS.items():
            fate, what = try_conversation(compiler, messages)
            counts[kind][fate] += 1
            if fate is not Fate.IN_ORDER:
                details.append(f"{name}, {kind}: {fate}: {what}")
    print(f"| conversation | {' | '.join(Fate)} |\n|---|{'---|' * len(Fate)}")
    total = sum(counts.values(), Counter[Fate]())
    for kind, count in (*counts.items(), ("all", total)):
        print(f"| {kind} | {' | '.join(str(count[head]) for head in Fate)} |")
    if options.details:
        print("\n".join(details))


if __name__ == "__main__":
    main()
