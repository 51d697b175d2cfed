"""Reads the beginning of an answer that has to fit something, and ends it in the shortest way."""

from collections.abc import Sequence
from typing import Protocol

from grammars.build.answer import read_regex
from grammars.build.values import escape_regex
from grammars.complete.call import Value
from grammars.complete.scalar import Fit, fit_words, join
from grammars.complete.shortest import Shortest
from grammars.regex.automaton import compile_regexes
from grammars.schema.members import KeyOrder
from grammars.spelling.json_call import BLANK, style_answer
from grammars.spelling.languages import Language, SizedTexts, Unknown, Words, pick_shortest
from grammars.turn import Answer, ChoiceAnswer, GrammarAnswer, JsonAnswer, RegexAnswer
from grammars.wire.format import Format


class AnswerEnd(Protocol):
    """Ends answers."""

    def end(self, text: str, at: int, pad: str) -> str | None:
        """The shortest rest of the answer that begins at that index; None if none is known.

        Args:
            text: what is written.
            at: where the answer begins.
            pad: white space that may stand in front of it.
        """
        ...


class JsonEnd:
    """Ends a JSON value, which may have white space in front."""

    def __init__(self, answer: JsonAnswer, format: Format, order: KeyOrder):
        shortest = Shortest(style_answer(format.hole), answer.schema.definitions, order)
        self._value = Value(answer.schema, shortest)

    def end(self, text: str, at: int, pad: str) -> str | None:
        fit = self._value.read(text, skip_space(text, at))
        return ("" if fit == len(text) else None) if isinstance(fit, int) else fit


class TextEnd:
    """Ends a text; the white space that the template writes behind the reasoning may be there."""

    def __init__(self, language: Language, openings: Sequence[str]):
        self._language = language
        self._beside_calls = bool(openings)

    def end(self, text: str, at: int, pad: str) -> str | None:
        plain = self._language.extend(text[at:])
        fit = fit_words(text, at, pad)
        if plain is not None or not pad or fit is None:
            return plain  # where the answer may go on, the lexer takes nothing for a pad
        pad, written = ("", text[fit:]) if isinstance(fit, int) else (fit, "")
        rest = self._language.extend(written)
        if self._beside_calls and (written + (rest or ""))[:1].isspace():
            return None  # the lexer takes it for more of the space in front of a call
        return join(pad, rest)


def read_answer(
    answer: Answer, format: Format, openings: Sequence[str], order: KeyOrder
) -> AnswerEnd:
    """What ends answers of this kind.

    Args:
        answer: what the content has to be.
        format: the wire format.
        openings: what opens a call where the turn may also be calls; the answer begins otherwise.
        order: in which order objects have their declared keys.
    """
    match answer:
        case JsonAnswer():
            return JsonEnd(answer, format, order)
        case RegexAnswer(regex):
            others = (format.reasoning.opener.text,) if format.reasoning else ()
            words = (*openings, *others)
            calls = tuple(rf"{BLANK}*{escape_regex(word)}(?s:.*)" for word in words)
            automaton = compile_regexes((read_regex(regex),), calls)
            return TextEnd(SizedTexts(0, None, automaton) if automaton else Unknown(), openings)
        case ChoiceAnswer(options):
            return TextEnd(Words(options), openings)
        case GrammarAnswer():
            return TextEnd(Unknown(), openings)


def skip_space(text: str, at: int) -> int:
    """Where the white space ends that models put in front of a block."""
    end = at
    while end < min(at + 4, len(text)) and text[end] in " \t\r\n":
        end += 1
    return end


def fit_spaced(text: str, at: int, word: str) -> Fit:
    """Reads a word behind the white space that models put in front of it; it may begin with some
    itself."""
    fits = [fit_words(text, i, word) for i in range(at, skip_space(text, at) + 1)]
    whole = [fit for fit in fits if isinstance(fit, int)]
    return whole[0] if whole else pick_shortest(fit for fit in fits if isinstance(fit, str))
