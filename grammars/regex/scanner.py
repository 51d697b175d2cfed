"""What readers of regular expressions share: a place in the text, and the error there."""

import re

COMMENT = re.compile(r"\(\?#[^)]*\)")
NAMED = re.compile(r"\(\?P?<([^<>=!()][^<>()]*)>")
SAME_NAME = re.compile(r"\(\?P=([^()]*)\)")


class PatternError(ValueError):
    """This is no regular expression of the language that is read.

    Attributes:
        reason: what is wrong.
        at: the index of the character where it is.
    """

    def __init__(self, reason: str, at: int):
        super().__init__(f"{reason}, at {at}")
        self.reason = reason
        self.at = at


class PatternScanner:
    """Reads a text from left to right; `at` is the index of the next character."""

    def __init__(self, text: str):
        self.text = text
        self.at: int = 0

    def peek(self, ahead: int = 0) -> str:
        """Returns the character after this many others; "" behind the end."""
        return self.text[self.at + ahead : self.at + ahead + 1]

    def takes(self, text: str) -> bool:
        """Reads the text, if it is here."""
        found = self.text.startswith(text, self.at)
        if found:
            self.at += len(text)
        return found

    def find(self, part: re.Pattern[str]) -> re.Match[str] | None:
        """Reads what the expression matches here; None: nothing."""
        found = part.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def fail(self, reason: str, at: int | None = None) -> PatternError:
        """Returns the error for that place, by default for this one."""
        return PatternError(reason, self.at if at is None else at)
