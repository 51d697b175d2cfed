"""Ten everyday questions, a few tools for each, and how many calls are the right ones.

python -m examples.everyday
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

from constrained import Model, Sampling, load


def set_timer(minutes: int, label: str | None = None) -> None:
    """Starts a timer."""


def cancel_timer(label: str) -> None:
    """Stops a timer."""


def convert_money(
    amount: float,
    source: Literal["euros", "dollars", "pounds"],
    target: Literal["euros", "dollars", "pounds"],
) -> None:
    """Converts an amount of money to another currency."""


def add_to_list(items: list[str]) -> None:
    """Adds items to the shopping list."""


def clear_list() -> None:
    """Empties the shopping list."""


def switch_light(room: str, on: bool) -> None:
    """Switches the light of a room on or off."""


def remind(text: str, day: str) -> None:
    """Sets a reminder."""


def play_music(genre: str, volume: int | None = None) -> None:
    """Plays music."""


def send_email(to: str, text: str) -> None:
    """Sends an email."""


def book_table(restaurant: str, people: int, day: str) -> None:
    """Reserves a table in a restaurant."""


def find_route(start: str, destination: str, by: Literal["car", "train", "bike"]) -> None:
    """Finds the way from one place to another."""


def translate(text: str, language: str) -> None:
    """Translates a text."""


HOUSE = (set_timer, cancel_timer, switch_light, play_music)
LISTS = (add_to_list, clear_list, remind)
TRIPS = (find_route, book_table, convert_money, translate)

Calls = list[tuple[str, dict[str, Any]]]
QUESTIONS: Sequence[tuple[str, Sequence[Callable[..., None]], Calls]] = [
    ("Set a timer for 10 minutes", HOUSE, [("set_timer", {"minutes": 10})]),
    (
        "Convert 250 euros to dollars",
        TRIPS,
        [("convert_money", {"amount": 250, "source": "euros", "target": "dollars"})],
    ),
    ("Add milk and eggs to my list", LISTS, [("add_to_list", {"items": ["milk", "eggs"]})]),
    (
        "Turn off the light in the kitchen",
        HOUSE,
        [("switch_light", {"room": "kitchen", "on": False})],
    ),
    (
        "Remind me to call Anna tomorrow",
        LISTS,
        [("remind", {"text": "call Anna", "day": "tomorrow"})],
    ),
    ("Play some jazz", HOUSE, [("play_music", {"genre": "jazz"})]),
    (
        "Send an email to bob@example.com saying the report is ready",
        (send_email, remind, translate),
        [("send_email", {"to": "bob@example.com", "text": "the report is ready"})],
    ),
    (
        "Book a table for 4 at Luigi's on Friday",
        TRIPS,
        [("book_table", {"restaurant": "Luigi's", "people": 4, "day": "Friday"})],
    ),
    (
        "How do I get from Lyon to Nice by train?",
        TRIPS,
        [("find_route", {"start": "Lyon", "destination": "Nice", "by": "train"})],
    ),
    ("Thank you, that was all!", HOUSE, []),
]


def ask(model: Model, question: str, tools: Sequence[Callable[..., None]]) -> tuple[Calls, str]:
    """What the model calls, and what it says beside that."""
    reply = model.call(question, tools, sampling=Sampling(temperature=0), max_tokens=200)
    return [(call.name, call.arguments) for call in reply.calls], reply.content


def main() -> None:
    """Asks all of them."""
    right = 0
    with load() as model:
        for question, tools, wanted in QUESTIONS:
            calls, content = ask(model, question, tools)
            right += calls == wanted
            print(f"{'right' if calls == wanted else 'wrong'}  {question}")
            for name, arguments in calls:
                print(f"         {name} {json.dumps(arguments, ensure_ascii=False)}")
            if content:
                print(f"         {content}")
    print(f"{right} of {len(QUESTIONS)} are right")


if __name__ == "__main__":
    main()
