"""What opens and closes reasoning, read alone."""

import pytest

from grammars.parse.output import TurnOutput
from grammars.parse.reasoning import ReasoningReader
from grammars.spelling.buffer import Buffer, Steps
from grammars.turn import ContentDelta, Event, Start, State
from grammars.wire.format import Marker, Reasoning

BLOCK = Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", after="\n\n")


class Stage:
    """A reader of reasoning, and what it reads and writes."""

    def __init__(self, text: str, state: State | None = None, *, recover: bool = False):
        self.buffer = Buffer()
        self.buffer.push(text)
        self.buffer.closed = True
        self.output = TurnOutput(inline=True)
        self.reader = ReasoningReader(
            state or State(),
            self.buffer,
            self.output,
            block=BLOCK,
            thoughts=("[THINK]", "[/THINK]"),
            recover=recover,
        )

    def run(self, steps: Steps[bool | None]) -> bool | None:
        """The result of steps that have all their text."""
        with pytest.raises(StopIteration) as end:
            next(steps)
        return end.value.value


@pytest.mark.parametrize(
    ("state", "text", "shown", "rest", "is_inside"),
    [
        (State(), "<think>\nhm", "<think>\n", "hm", True),
        (State(), "\n<think>hm", "\n<think>", "hm", True),
        (State(), "Hello", "", "Hello", False),
        (State(Start.OPEN, "\n"), "\nhm", "<think>\n", "hm", True),
        (State(Start.CLOSED, "\n"), "\n</think>\n\nHello", "</think>\n\n", "Hello", False),
    ],
)
def test_the_head_of_a_turn_is_read(
    state: State, text: str, shown: str, rest: str, is_inside: bool
) -> None:
    stage = Stage(text, state)
    stage.run(stage.reader.read_head())
    events: list[Event] = stage.output.take()
    assert "".join(event.text for event in events if isinstance(event, ContentDelta)) == shown
    assert stage.buffer.rest == rest
    assert stage.output.in_block == is_inside


def test_the_closer_of_what_is_open_is_one() -> None:
    stage = Stage("<think>\nhm")
    stage.run(stage.reader.read_head())
    assert not stage.run(stage.reader.close("[/THINK]"))
    assert stage.run(stage.reader.close("\n</think>"))
    assert not stage.output.in_block
    assert not stage.run(stage.reader.close("\n</think>"))


def test_other_thoughts_have_their_own_closer() -> None:
    stage = Stage("[THINK]\nhm")
    stage.run(stage.reader.read_head())
    assert stage.output.in_thoughts
    assert stage.buffer.rest == "hm"
    assert stage.run(stage.reader.close("\n[/THINK]"))
    assert not stage.output.in_thoughts


@pytest.mark.parametrize(("rest", "is_meant"), [(" ", True), (" more", False)])
def test_a_call_amid_reasoning_is_meant_if_nothing_follows(rest: str, is_meant: bool) -> None:
    stage = Stage(f"<think>\nCALL{rest}", recover=True)
    stage.run(stage.reader.read_head())
    stage.output.take()
    stage.buffer.take(2)  # the opener of the call

    def read() -> Steps[bool]:
        yield from stage.buffer.literal("LL")
        stage.output.add(ContentDelta("a call"))
        return True

    stage.run(stage.reader.read_pending("CA", read()))
    assert stage.output.take() == []
    stage.run(stage.reader.close("\n</think>"))
    texts = [event.text for event in stage.output.take() if isinstance(event, ContentDelta)]
    assert ("a call" in texts) == is_meant
    assert ("CALL" in "".join(texts)) != is_meant
