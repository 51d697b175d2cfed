"""Which sequences of requests get a warning that the prefix was lost, and which do not: a table."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.observe.prefix_watch import PrefixWatch
from server.observe.prompt_parts import count_same
from tests.templates import tool

Json = dict[str, Any]
Request = tuple[list[Json], list[Json]]

PREAMBLE = "You are a coding agent. Read files before you change them. Run the tests. " * 6
TOOLS = [tool(name, {"path": {"type": "string"}}) for name in ("read", "write", "search", "run")]
OTHERS = [tool(name, {"city": {"type": "string"}}) for name in ("weather", "forecast")]


def system(text: str) -> Json:
    return {"role": "system", "content": text}


def ask(text: str) -> Json:
    return {"role": "user", "content": text}


def say(text: str) -> Json:
    return {"role": "assistant", "content": text}


def use(name: str, number: int) -> list[Json]:
    """A call and its result."""
    function = {"name": name, "arguments": f'{{"path": "file{number}"}}'}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"content {number}"},
    ]


def loop(task: str, steps: int) -> list[Json]:
    """An agent's conversation after so many steps."""
    talk = [ask(task)]
    for number in range(steps):
        talk += use("read", number)
    return talk


def edit(tools: Sequence[Json], number: int, description: str) -> list[Json]:
    """The tools with another description of one of them."""
    edited = [*tools]
    function = {**tools[number]["function"], "description": description}
    edited[number] = {**tools[number], "function": function}
    return edited


MAIN = system(PREAMBLE)
REORDERED = [TOOLS[2], *TOOLS[:2], TOOLS[3]]
EXAMPLES = [ask("2 + 2?"), say("4"), ask("2 + 3?"), say("5")]
THINKING = [ask("t"), say("<think>a</think>A"), ask("u"), say("<think>b</think>B"), ask("v")]
CLEAN = [ask("t"), say("A"), ask("u"), say("B"), ask("v"), say("C"), ask("w")]

NONE = ""
SEQUENCES: dict[str, tuple[list[Request], list[str]]] = {
    # Nothing is lost.
    "an agent loop": (
        [([MAIN, *loop("fix it", n)], TOOLS) for n in range(6)],
        [NONE] * 6,
    ),
    "two agent loops in turn": (
        [([MAIN, *loop(task, n)], TOOLS) for n in range(4) for task in ("fix it", "test it")],
        [NONE] * 8,
    ),
    "unrelated questions": (
        [([MAIN, ask(f"question {n}")], TOOLS) for n in range(4)],
        [NONE] * 4,
    ),
    "unrelated questions with other tools": (
        [([ask("hi")], TOOLS), ([ask("weather?")], OTHERS), ([ask("hi")], TOOLS[:2])],
        [NONE] * 3,
    ),
    "unrelated questions with some tools in common": (
        [([MAIN, ask(f"question {n}")], [*TOOLS[:3], tool(f"t{n}")]) for n in range(4)],
        [NONE] * 4,
    ),
    "the same question with other tools": (
        [([MAIN, ask("hi")], TOOLS), ([MAIN, ask("hi")], OTHERS), ([ask("hi")], [])],
        [NONE] * 3,
    ),
    "the same question to two system messages": (
        [([system(text), ask("hi")], []) for text in ("You sell shoes. " * 20, "Secret. " * 30)],
        [NONE] * 2,
    ),
    "conversations of two system messages that begin with the same question": (
        [
            ([system(text), *talk], TOOLS)
            for talk in ([ask("hi")], [ask("hi"), say("Hello"), ask("go on")])
            for text in ("You sell shoes. " * 20, "You write poems. " * 20)
        ],
        [NONE] * 4,
    ),
    "parallel sub-agents with different systems": (
        [
            ([system(f"{role} {PREAMBLE[: 40 * size]}"), *loop(role, n)], TOOLS[:size])
            for n in range(3)
            for size, role in ((4, "You plan."), (3, "You search."), (2, "You write."))
        ],
        [NONE] * 9,
    ),
    "short system messages that are alike by chance": (
        [([system(f"You are worker {n}"), ask(f"part {n}")], []) for n in range(4)],
        [NONE] * 4,
    ),
    "an agent and its helper with nearly the same system message, in turn": (
        [([system(PREAMBLE + end), *loop(end, n)], TOOLS) for n in range(3) for end in ("A", "B")],
        [NONE, "system", NONE, NONE, NONE, NONE],  # once: from then on both are in the cache
    ),
    "examples in front of each question": (
        [([*EXAMPLES, ask(f"{n} + 7?")], [tool(f"t{n}")]) for n in range(4)],
        [NONE] * 4,
    ),
    "the last question is edited": (
        [
            ([MAIN, *loop("a", 2), say("done"), ask("thanks")], TOOLS),
            ([MAIN, *loop("a", 2), say("done"), ask("more")], TOOLS),
        ],
        [NONE] * 2,
    ),
    "a conversation goes back, and on in another way": (
        [
            ([MAIN, ask("a"), say("1"), ask("b"), say("2"), ask("c")], TOOLS),
            ([MAIN, ask("a"), say("1"), ask("d")], TOOLS),
        ],
        [NONE] * 2,
    ),
    # Something is lost.
    "a rotating header in the system message of a loop": (
        [([system(f"{n:08x} {PREAMBLE}"), *loop("fix it", n)], TOOLS) for n in range(4)],
        [NONE] + ["system"] * 3,
    ),
    "a rotating header in front of unrelated questions": (
        [([system(f"{n:08x} {PREAMBLE}"), ask(f"question {n}")], TOOLS) for n in range(4)],
        [NONE] + ["system"] * 3,
    ),
    "the time at the end of the system message": (
        [([system(f"{PREAMBLE} 10:0{n}"), *loop("fix it", n)], []) for n in range(4)],
        [NONE] + ["system"] * 3,
    ),
    "the system message is another one in the middle of a conversation": (
        [([MAIN, *loop("a", 2)], TOOLS), ([system("Now act."), *loop("a", 3)], TOOLS)],
        [NONE, "system"],
    ),
    "reordered tools in a loop": (
        [([MAIN, *loop("a", 1)], TOOLS), ([MAIN, *loop("a", 2)], REORDERED)],
        [NONE, "tools_reordered"],
    ),
    "reordered tools in front of unrelated questions": (
        [([MAIN, ask("a")], TOOLS), ([MAIN, ask("b")], REORDERED), ([MAIN, ask("c")], TOOLS)],
        [NONE, "tools_reordered", NONE],
    ),
    "a changed description": (
        [([MAIN, *loop("a", 1)], TOOLS), ([MAIN, *loop("a", 2)], edit(TOOLS, 1, "New."))],
        [NONE, "tool_edited"],
    ),
    "a description that rotates in front of unrelated questions": (
        [([MAIN, ask(f"q{n}")], edit(TOOLS, 1, f"Since 10:0{n}")) for n in range(3)],
        [NONE, "tool_edited", "tool_edited"],
    ),
    "a tool more in the middle of a conversation": (
        [([MAIN, *loop("a", 1)], TOOLS[:3]), ([MAIN, *loop("a", 2)], TOOLS)],
        [NONE, "tool_added"],
    ),
    "a tool less in the middle of a conversation": (
        [([MAIN, ask("a")], TOOLS), ([MAIN, *loop("a", 1)], TOOLS[1:])],
        [NONE, "tool_removed"],
    ),
    "the first message has the time": (
        [([MAIN, ask(f"10:0{n} fix it"), *loop("", n)[1:]], TOOLS) for n in range(1, 4)],
        [NONE, "message", "message"],
    ),
    "the reasoning is taken out of all answers": (
        [(THINKING, []), (CLEAN, [])],
        [NONE, "message"],
    ),
    "the oldest messages are dropped": (
        [([MAIN, *loop("a", 4)], TOOLS), ([MAIN, *loop("a", 6)[4:]], TOOLS)],
        [NONE, "messages_dropped"],
    ),
    "messages behind the first one are dropped": (
        [([MAIN, *loop("a", 4)], TOOLS), ([MAIN, ask("a"), *loop("a", 5)[5:]], TOOLS)],
        [NONE, "messages_dropped"],
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(name: str):
    requests, expected = SEQUENCES[name]
    watch = PrefixWatch()
    found: list[str] = []
    for messages, tools in requests:
        lost = watch.note(messages, tools, None)
        found.append(NONE if lost is None else lost.part.value)
    assert found == expected


def test_the_words_of_dropped_messages():
    watch = PrefixWatch()
    watch.note(loop("a", 4), (), None)
    lost = watch.note(loop("a", 6)[2:], (), None)
    assert str(lost) == "message 1 (user) is gone"


@given(st.text("ab", max_size=9), st.text("ab", max_size=9))
def test_the_characters_that_are_the_same(first: str, second: str):
    same = count_same(first, second)
    assert first[:same] == second[:same]
    assert first[same : same + 1] != second[same : same + 1] or same == len(first) == len(second)
