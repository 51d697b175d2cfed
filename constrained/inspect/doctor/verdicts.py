"""The results of the doctor: checks, their verdicts, and remedies."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from grammars.errors import Error


class Level(IntEnum):
    """The severity of a verdict."""

    OK = 0
    NOTE = 1
    """Information: nothing is wrong, or this project compensates for it."""
    WARNING = 2
    """It costs time or quality."""
    FAILURE = 3
    """The model or the template cannot be used as it is."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Verdict:
    """An answer to the question of a check."""

    level: Level
    text: str
    remedy: str = ""  # what to do; "" if there is nothing to do
    # the result as JSON, for programs
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_detail: bool = False  # it is shown only if all details are requested


def shorten(text: str, max_length: int) -> str:
    """Puts a text on one line, and leaves out the middle of a long one."""
    line = " ".join(text.split())
    if len(line) <= max_length:
        return line
    return f"{line[: max_length // 2]} ... {line[-max_length // 3 :]}"


@dataclass(frozen=True)
class Check:
    """A question, and the function that answers it for a subject: no verdict if it does not
    apply."""

    name: str
    question: str
    examine: Callable[[Any], Iterable[Verdict]]

    def run(self, subject: Any) -> "Answer":
        """Examines a subject. If the check itself fails, the answer is a warning."""
        verdicts: list[Verdict] = []
        try:
            for verdict in self.examine(subject):
                verdicts.append(verdict)
        except Error as e:
            text = f"this cannot be examined: {e.message}"
            verdicts.append(Verdict(Level.WARNING, text, e.hint or ""))
        return Answer(self.name, self.question, tuple(verdicts))


@dataclass(frozen=True)
class Answer:
    """The result of a check."""

    name: str
    question: str
    verdicts: tuple[Verdict, ...]

    @property
    def level(self) -> Level:
        """The level of the worst verdict."""
        return max((verdict.level for verdict in self.verdicts), default=Level.OK)


@dataclass(frozen=True)
class Diagnosis:
    """All answers for a subject, of the checks that apply."""

    subject: str
    answers: tuple[Answer, ...]

    @property
    def level(self) -> Level:
        """The level of the worst answer."""
        return max((answer.level for answer in self.answers), default=Level.OK)

    def to_json(self) -> dict[str, Any]:
        checks: list[dict[str, Any]] = []
        for answer in self.answers:
            verdicts: list[dict[str, Any]] = []
            for verdict in answer.verdicts:
                shown: dict[str, Any] = {"level": str(verdict.level), "text": verdict.text}
                if verdict.remedy:
                    shown["remedy"] = verdict.remedy
                if verdict.facts:
                    shown["facts"] = dict(verdict.facts)
                verdicts.append(shown)
            check = {"check": answer.name, "question": answer.question, "level": str(answer.level)}
            checks.append({**check, "verdicts": verdicts})
        return {"subject": self.subject, "level": str(self.level), "checks": checks}
