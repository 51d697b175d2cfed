"""Parsers of whole texts, each with one fault; the sentence that describes it is the docstring."""

import html
import json
import re
from collections.abc import Callable

from grammars.suite import Reading
from tests.suite_mutants.hermes_parsers import (
    CLOSER,
    END_THINK,
    Call,
    HermesText,
    decode,
    skip_space,
)
from tests.suite_mutants.mistral_parsers import NemoText
from tests.suite_mutants.qwen_parser import WORDS, QwenText

Found = tuple[list[Call], int] | None


def change_values(value: object, change: Callable[[object], object]) -> object:
    """Changes each value inside of a value that is neither a list nor an object."""
    if isinstance(value, dict):
        return {key: change_values(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [change_values(item, change) for item in value]
    return change(value)


class ChangesValues(HermesText):
    """Changes values of arguments, wherever they are: the frame of several mutants."""

    def read_call(self, call: object) -> Call | None:
        found = super().read_call(call)
        return found and (found[0], change_values(found[1], self.change))

    def change(self, value: object) -> object:
        """Returns what the mutant makes of a value."""
        return value


class TagEndsCall(HermesText):
    """A call ends at the first </tool_call>, even if this is inside of a string."""

    def read_calls(self, text: str, start: int) -> Found:
        end = text.find(CLOSER, start)
        return super().read_calls(text[: end + len(CLOSER)], start)


class FirstBraceEndsArguments(HermesText):
    """Arguments end at the first closing brace, as with a regular expression that is not greedy."""

    def read_calls(self, text: str, start: int) -> Found:
        brace = text.find("}", start) + 1
        found = decode(text[start:brace] + "}", 0)
        call = None if found is None else self.read_call(found[0])
        end = text.find(CLOSER, brace)
        return None if call is None or end < 0 else ([call], end + len(CLOSER))


class DropsEqualCalls(HermesText):
    """A call that equals an earlier one of the turn is dropped."""

    def split_calls(self, text: str) -> tuple[str, list[Call]]:
        content, calls = super().split_calls(text)
        return content, [call for i, call in enumerate(calls) if call not in calls[:i]]


class KeepsEscapedNewlines(ChangesValues):
    """The escape of a line break in a string is not decoded: the value has a backslash and an n."""

    def change(self, value: object) -> object:
        return value.replace("\n", "\\n") if isinstance(value, str) else value


class UnescapesTwice(ChangesValues):
    """Escapes are decoded twice: a path such as C:\\new gets a line break."""

    def change(self, value: object) -> object:
        if not isinstance(value, str):
            return value
        meanings = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
        return re.sub(r'\\([nt"\\])', lambda escape: meanings[escape[1]], value)


class KeepsUnicodeEscapes(HermesText):
    """Characters that are written as \\u escapes are not decoded."""

    def read_calls(self, text: str, start: int) -> Found:
        found = super().read_calls(text, start)
        if found is None:
            return None
        written = text[start : found[1]].replace("\\u", "\\\\u")
        again = super().read_calls(written, 0)
        return again and (again[0], found[1])


class ReadsTextAsNumbers(ChangesValues):
    """A string of digits becomes a number: "007" is read as 7."""

    def change(self, value: object) -> object:
        is_digits = isinstance(value, str) and re.fullmatch("[0-9]+", value)
        return int(str(value)) if is_digits else value


class DropsNulls(HermesText):
    """Arguments whose value is null are left out."""

    def read_call(self, call: object) -> Call | None:
        found = super().read_call(call)
        if found is None or not isinstance(found[1], dict):
            return None
        return found[0], {key: value for key, value in found[1].items() if value is not None}


class DropsCallsWithoutArguments(HermesText):
    """A call with empty arguments is dropped."""

    def split_calls(self, text: str) -> tuple[str, list[Call]]:
        content, calls = super().split_calls(text)
        return content, [call for call in calls if call[1]]


class CallsInThoughts(HermesText):
    """A call that the model only thinks about is called."""

    def __call__(self, text: str) -> Reading:
        reasoning, answer = self.split_thought(text)
        reasoning, thought = self.split_calls(reasoning)
        content, calls = self.split_calls(answer)
        return Reading(content=content, reasoning=reasoning, calls=thought + calls)


class LosesTextAfterCall(HermesText):
    """Text after the last call is lost."""

    def trim_after(self, text: str, calls: list[Call]) -> str:
        return "" if calls else text


class LosesTextBetweenCalls(HermesText):
    """Text between two calls is lost."""

    def trim_before(self, text: str, calls: list[Call]) -> str:
        return "" if calls else super().trim_before(text, calls)


class DropsCallBeforeText(HermesText):
    """Calls are only found at the end of the turn: text after them makes them text."""

    def split_calls(self, text: str) -> tuple[str, list[Call]]:
        if not text.rstrip().endswith(CLOSER):
            return text, []
        return super().split_calls(text)


class LosesLeadingLineBreak(HermesText):
    """Line breaks at the beginning of the content are lost."""

    def split_calls(self, text: str) -> tuple[str, list[Call]]:
        return super().split_calls(text.lstrip("\n"))


class StripsThoughts(HermesText):
    """White space that belongs to the reasoning is stripped from both of its ends."""

    def trim_thought(self, thought: str) -> str:
        return thought.strip()


class SplitsAtLineSeparators(HermesText):
    """Calls are read line by line, with str.splitlines: U+2028 and U+0085 vanish from strings."""

    def read_calls(self, text: str, start: int) -> Found:
        found = super().read_calls(text, start)
        if found is None:
            return None
        again = super().read_calls("".join(text[start : found[1]].splitlines()), 0)
        return again and (again[0], found[1])


class RoundsBigIntegers(ChangesValues):
    """Integers go through a float: those above 2**53 are rounded."""

    def change(self, value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            return int(float(value))
        return value


class WritesNestedValuesAsText(HermesText):
    """A list or an object as an argument becomes its JSON text."""

    def read_call(self, call: object) -> Call | None:
        found = super().read_call(call)
        if found is None or not isinstance(found[1], dict):
            return None
        return found[0], {key: self.flatten(value) for key, value in found[1].items()}

    def flatten(self, value: object) -> object:
        """Returns the text of a list or an object."""
        return json.dumps(value) if isinstance(value, list | dict) else value


class ReadsEmptyTextAsNull(ChangesValues):
    """An empty string becomes null."""

    def change(self, value: object) -> object:
        return None if value == "" else value


class TakesNameOfArguments(HermesText):
    """An argument that is called "name" is taken for the name of the tool."""

    def read_call(self, call: object) -> Call | None:
        match super().read_call(call):
            case (_, {"name": str(name)} as arguments):
                return name, arguments
            case found:
                return found


class CrashesOnBrokenCalls(HermesText):
    """A call that is not JSON raises an error that the caller does not expect."""

    def read_calls(self, text: str, start: int) -> Found:
        json.JSONDecoder().raw_decode(text, skip_space(text, start))
        return super().read_calls(text, start)


class CompletesCutCalls(HermesText):
    """A call that was cut off is closed with what is missing, and delivered as if it were whole."""

    def read_calls(self, text: str, start: int) -> Found:
        if CLOSER in text[start:]:
            return super().read_calls(text, start)
        for missing in ('"}}', "}}", "}", ""):
            found = super().read_calls(text + missing + CLOSER, start)
            if found is not None:
                return found[0], len(text)
        return None


class DropsUnknownTools(HermesText):
    """A call of a tool that was not offered vanishes: it is neither a call nor text."""

    def split_calls(self, text: str) -> tuple[str, list[Call]]:
        content, calls = super().split_calls(text)
        return content, [call for call in calls if call[0] in self.schemas]


class NormalizesNames(HermesText):
    """Names of tools are normalized: each dot and hyphen becomes an underscore."""

    def read_call(self, call: object) -> Call | None:
        found = super().read_call(call)
        return found and (re.sub("[-.]", "_", found[0]), found[1])


class ThinksWithoutOpener(HermesText):
    """All before </think> is reasoning, even without <think>, and even if it is inside of a
    string."""

    def split_thought(self, text: str) -> tuple[str, str]:
        if END_THINK not in text:
            return "", text
        thought, _, answer = text.removeprefix("<think>").partition(END_THINK)
        return self.trim_thought(thought), answer.removeprefix("\n").removeprefix("\n")


class EncodesArgumentsTwice(HermesText):
    """The arguments are the JSON text of their JSON text."""

    def read_call(self, call: object) -> Call | None:
        found = super().read_call(call)
        return found and (found[0], json.dumps(json.dumps(found[1])))


class EndsAtEndMarker(HermesText):
    """The text is cut at the first <|im_end|>, even if this is inside of a string."""

    def __call__(self, text: str) -> Reading:
        return super().__call__(text.partition("<|im_end|>")[0])


class FirstBracketEndsList(NemoText):
    """The list of calls ends at the first closing bracket, even if this ends a list among the
    arguments."""

    def read_calls(self, text: str, start: int) -> Found:
        return super().read_calls(text[: text.find("]", start) + 1], start)


class ReadsOnlyFirstCall(NemoText):
    """Only the first call of a list is read."""

    def read_calls(self, text: str, start: int) -> Found:
        found = super().read_calls(text, start)
        return found and (found[0][:1], found[1])


class ReplacesSingleQuotes(NemoText):
    """Single quotes are replaced by double quotes, so that Python's spelling can be read, too."""

    def read_calls(self, text: str, start: int) -> Found:
        return super().read_calls(text.replace("'", '"'), start)


class StripsValues(QwenText):
    """White space at both ends of a value is stripped, as if all of it were the format's."""

    def read_parameters(self, text: str, position: int) -> tuple[dict[str, str], int]:
        written, end = super().read_parameters(text, position)
        return {key: value.strip() for key, value in written.items()}, end


class GuessesTypes(QwenText):
    """A value that looks like JSON is read as JSON, although the schema says that it is text."""

    def read_arguments(self, name: str, written: dict[str, str]) -> dict[str, object]:
        return {key: self.read_value(value)[0] for key, value in written.items()}


class LeavesNumbersText(QwenText):
    """Numbers stay text, whatever the schema says."""

    def read_value(self, written: str) -> list[object]:
        readings = super().read_value(written)
        is_number = type(readings[0]) in (int, float)
        return [written] if is_number else readings


class UnescapesHtml(QwenText):
    """Values are unescaped as if they were HTML: &lt; becomes <."""

    def read_parameters(self, text: str, position: int) -> tuple[dict[str, str], int]:
        written, end = super().read_parameters(text, position)
        return {key: html.unescape(value) for key, value in written.items()}, end


class TagEndsValue(QwenText):
    """A value ends at the first </parameter>, even if the value goes on after it."""

    def find_end(self, text: str, start: int) -> int:
        end = text.find("</parameter>", start)
        return end - 1 if text[start - 1 : end].endswith("\n") else end


class ReadsFalseAsTrue(QwenText):
    """Each boolean is true, since the text "False" is not empty."""

    def read_value(self, written: str) -> list[object]:
        readings = super().read_value(written)
        return [True, written] if readings[0] is False else readings


class ReadsOnlyJsonWords(QwenText):
    """Python's words for true, false and null, which the template writes, stay text."""

    def read_value(self, written: str) -> list[object]:
        return [written] if written.strip() in WORDS else super().read_value(written)
