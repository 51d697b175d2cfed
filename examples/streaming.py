"""A turn while it is written: reasoning, text, and arguments that are typed before they are whole.

python -m examples.streaming
"""

from constrained import load
from grammars.turn import (
    ArgumentsDelta,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    ReasoningDelta,
)


def send_mail(to: str, subject: str, urgent: bool = False) -> None:
    """Sends a mail."""


def main() -> None:
    """Prints what each event says."""
    with load() as model:
        stream = model.stream(
            "Tell Ann that the meeting is at nine.",
            [send_mail],
            tool_choice="required",
            parallel=False,
            max_tokens=200,
            reasoning_budget=16,
        )
        for event in stream:
            match event:
                case ReasoningDelta(text):
                    print(f"reasoning  {text!r}")
                case ContentDelta(text):
                    print(f"content    {text!r}")
                case CallOpened(index, name):
                    print(f"call {index}     {name}")
                case ArgumentsDelta(index):
                    print(f"so far     {stream.arguments(index)}")
                case CallRead(index, call):
                    print(f"call {index}     {call.name} {call.arguments}")
                case CallCut(text):
                    print(f"cut        {text!r}")
                case _:  # the tokens have run out: what follows only ends the turn
                    print("...")
        print(f"finished: {stream.result.finish_reason}")


if __name__ == "__main__":
    main()
