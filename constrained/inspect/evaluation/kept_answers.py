"""Answers in a file, turn by turn: a run of hours can be stopped, or killed, and gone on with."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, BinaryIO

from constrained.errors import RequestError
from constrained.inspect.evaluation.asking import (
    Asker,
    Messages,
    ModelAnswer,
    Tools,
    WrittenCall,
)

HINT = "Name another file with --answers, or give the same options"


class KeptAnswers(AbstractContextManager["KeptAnswers"]):
    """Answers by who was asked what: those of a JSON Lines file, and those that are added to it.
    Without a file, they are kept in memory.

    Args:
        options: all that changes answers, beside the key and the request. They are the first line
            of the file.

    Attributes:
        notes: what is known about models whose answers are kept.

    Raises:
        RequestError: the file cannot be used, or was made with other options.
    """

    def __init__(self, path: str | os.PathLike[str] | None, options: Mapping[str, Any]):
        self.notes: list[str] = []
        self._answers: dict[str, ModelAnswer] = {}
        self._digests: dict[str, set[str]] = {}
        self._file: BinaryIO | None = None
        if path is None:
            return
        try:
            # Appending: two runs with the same file do not overwrite each other's answers.
            self._file = open(path, "a+b")  # noqa: SIM115
        except OSError as e:
            raise RequestError(f"{path} cannot be opened: {e.strerror}", hint="Check it") from e
        try:
            self._read(path, self._file, options)
        except BaseException:
            self._file.close()
            raise

    def _read(
        self, path: str | os.PathLike[str], file: BinaryIO, options: Mapping[str, Any]
    ) -> None:
        end = 0  # of the last whole line: a run that was killed may have left half of one
        file.seek(0)
        first = _pack({"options": options})
        for number, line in enumerate(file, 1):
            is_half = not line.endswith(b"\n")
            if is_half and (number > 1 or first.startswith(line)):
                break
            try:
                row = json.loads(line)
                if number == 1 and not is_half:
                    _compare(path, row["options"], options)
                else:
                    answer = row["answer"]
                    calls = tuple(WrittenCall(**call) for call in answer["calls"])
                    self._answers[row["key"]] = ModelAnswer(**{**answer, "calls": calls})
                    model = row["model"]
                    self._digests.setdefault(model["name"], set()).add(model.get("sha256", ""))
            except (ValueError, LookupError, TypeError, AttributeError) as e:
                if isinstance(e, RequestError):
                    raise
                message = f"{path}, line {number} is no kept answer"
                raise RequestError(message, hint="Name another file with --answers") from e
            end += len(line)
        file.truncate(end)
        if not end:
            self._write(first)

    def __exit__(self, *exception: object) -> None:
        if self._file:
            self._file.close()

    def keep(self, ask: Asker, model: Mapping[str, str], way: str) -> Asker:
        """Wraps an asker: what it has answered before is not asked again. Errors are not kept.
        `model` names the model, with what tells it from others of the same name; `way` is how it is
        asked."""
        name, digest = model["name"], model.get("sha256", "")
        note = f"{name} is not the file of this name whose answers are kept: it is asked anew"
        if digest not in self._digests.get(name, {digest}) and note not in self.notes:
            self.notes.append(note)
        return partial(self._ask, ask, model, way)

    def _ask(
        self, ask: Asker, model: Mapping[str, str], way: str, messages: Messages, tools: Tools
    ) -> ModelAnswer:
        key = hashlib.sha256(_pack([model, way, messages, tools])).hexdigest()
        kept = self._answers.get(key)
        if kept is not None:
            return kept
        answer = ask(messages, tools)
        if not answer.error:
            self._answers[key] = answer
            # Not by `asdict`, which cannot copy arguments that are nested deeply.
            written = {**vars(answer), "calls": [vars(call) for call in answer.calls]}
            self._write(_pack({"model": model, "way": way, "key": key, "answer": written}))
        return answer

    def _write(self, line: bytes) -> None:
        if self._file:
            self._file.write(line + b"\n")
            self._file.flush()


def _pack(value: Any) -> bytes:
    return json.dumps(value).encode()


def _compare(path: str | os.PathLike[str], then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in {**now, **then}:
        if then.get(name) != now.get(name):
            message = f"{path} has answers with {name} {then.get(name)!r}, not {now.get(name)!r}"
            raise RequestError(message, hint=HINT)
