"""Prompts that end with the opener of a reasoning block."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

THINKING = {"enable_thinking": True, "reasoning_effort": "high", "thinking": True}
"""Variables by which chat templates let a model think."""
_PROBE = "zorn"


@dataclass(frozen=True)
class OpenPrompt:
    """What the prompt ends with.

    The opener is part of the prompt, so it is left out of each text. A text without one gets the
    closer instead: the model has thought nothing.

    Args:
        opener, closer: the tags of a reasoning block; "": the prompt opens none.
    """

    opener: str = ""
    closer: str = ""

    def begin(self, text: str) -> str:
        """Returns what the model writes after the prompt."""
        start = text.lstrip()
        if start.startswith(self.opener):
            return start.removeprefix(self.opener) if self.opener else text
        return self.closer + text

    def fit(self, chunks: Sequence[str]) -> list[str]:
        """Returns the chunks of what the model writes, cut in the same places."""
        text = "".join(chunks)
        written = self.begin(text)
        left_out = len(text) - len(written)
        cuts = [0]
        end = 0
        for chunk in chunks[:-1]:
            end += len(chunk)
            cuts.append(min(max(end - left_out, 0), len(written)))
        return [written[a:b] for a, b in zip(cuts, [*cuts[1:], len(written)], strict=True)]


def find_open_prompt(
    read: Callable[[str], str | None], opener: str, closer: str, *, markers: Sequence[str]
) -> OpenPrompt:
    """Returns whether a parser expects that the prompt has opened a block: it takes text without an
    opener for reasoning.

    Args:
        read: returns the reasoning of a whole text.
        markers: the tags of the format. An opener that is only the start of one (Gemma 4 has a word
            after it) is not told from text before a closer.
    """
    is_part = any(text != opener and text.startswith(opener) for text in markers)
    for text in (_PROBE,) if is_part else (_PROBE, _PROBE + closer):
        with suppress(Exception):
            if read(text) == _PROBE:
                return OpenPrompt(opener, closer)
    return OpenPrompt()
