"""Collects what happens to each keyword of a document during lowering."""

import re
from collections.abc import Iterable, Mapping

from grammars.schema.json_values import Json
from grammars.schema.lowering.document.references import find_draft
from grammars.schema.lowering.keywords import is_format_validated, is_validated, number_draft
from grammars.schema.nodes import Finding, Report
from grammars.schema.pointers import escape, find_member, unescape
from grammars.schema.subschemas import find_keywords, find_origin

_Reasons = dict[tuple[str, str], str]
"""By pointer and keyword."""
_Found = dict[tuple[str, str], Finding]
_NOT_ENFORCED = "not enforced by the mask"
_ALTERNATIVE = re.compile("/(?:anyOf|oneOf|allOf)/[0-9]+(?=/|$)")


class Findings:
    """The findings of one document. If there are several for one keyword at one pointer, the first
    one counts. Lowering makes alternatives that are not in the document; the report has the schema
    around them."""

    def __init__(self, root: Json, origins: Mapping[str, str]):
        self._origins = origins
        self._keywords = find_keywords(root)
        self.draft = number_draft(find_draft(root))
        self._places: dict[str, Json] = {"": root}
        self.enforced: _Reasons = {}
        self.checked: _Reasons = {}
        self._narrowed: _Reasons = {}
        self._ignored: _Reasons = {}

    def enforce(self, pointer: str, keyword: str) -> None:
        """The mask enforces the keyword at that JSON pointer."""
        if keyword in self._keywords:  # other keywords come from rewriting, not from the document
            self.enforced.setdefault((pointer, keyword), "")

    def check(self, pointer: str, keyword: str, reason: str) -> None:
        """The validator checks the keyword after generation. It does not if the document's draft
        does not have the keyword."""
        if not is_validated(keyword, self.draft):
            ignored = f"{_NOT_ENFORCED}, and not checked: not in this draft"
            if reason != _NOT_ENFORCED:
                ignored += f" ({reason})"
            self.ignore(pointer, keyword, ignored)
            return
        self.checked.setdefault((pointer, keyword), reason)

    def narrow(self, pointer: str, keyword: str, reason: str) -> None:
        """The mask refuses some values that the keyword allows."""
        self._narrowed.setdefault((pointer, keyword), reason)

    def check_format(self, pointer: str, name: str) -> None:
        """The validator checks a known format after generation, if the draft has it."""
        reason = f"{name!r} is not enforced by the mask"
        if is_format_validated(name, self.draft):
            self.check(pointer, "format", reason)
        else:
            self.ignore(pointer, "format", f"{reason}, and not checked: not in this draft")

    def bar(self, pointer: str) -> None:
        """No value fits the schema of an optional key at that JSON pointer."""
        self.enforced.setdefault((pointer, ""), "no value fits, so the key is never written")

    def ignore(self, pointer: str, keyword: str, reason: str = "no such keyword") -> None:
        """Neither the mask nor the validator reads the keyword."""
        self._ignored.setdefault((pointer, keyword), reason)

    def note(self, pointer: str, keywords: Iterable[str], *, enforced: bool) -> None:
        """The mask enforces these keywords if `enforced`; otherwise the validator checks them."""
        for keyword in sorted(keywords):
            if enforced:
                self.enforce(pointer, keyword)
            else:
                self.check(pointer, keyword, _NOT_ENFORCED)

    def report(self) -> Report:
        """Returns the report. What is enforced in part counts as checked, or else as ignored."""
        enforced = self._place(self.enforced)
        checked = self._place(self.checked)
        ignored = self._place(self._ignored)
        for key in (*checked, *ignored):
            enforced.pop(key, None)
        return Report(
            enforced=tuple(enforced.values()),
            checked=tuple(checked.values()),
            narrowed=tuple(self._place(self._narrowed).values()),
            ignored=tuple(finding for finding in ignored.values() if not self._is_reached(finding)),
        )

    def _is_reached(self, finding: Finding) -> bool:
        """Returns whether references lead into the unknown keyword of a finding."""
        inside = f"{finding.pointer}/{escape(finding.keyword)}/"
        return any(origin.startswith(inside) for origin in self._origins.values())

    def _place(self, reasons: _Reasons) -> _Found:
        """Returns the findings at pointers that the client's document has."""
        placed: _Found = {}
        for (pointer, keyword), reason in reasons.items():
            outer = find_origin(self._find_outer(pointer), self._origins)
            placed.setdefault((outer, keyword), Finding(outer, keyword, reason))
        return placed

    def _find_outer(self, pointer: str) -> str:
        """Returns the pointer up to the first alternative that the document does not have."""
        for alternative in _ALTERNATIVE.finditer(pointer):
            outer = pointer[: alternative.start()]
            has_outer = self._look_up(outer) is not None
            if has_outer and self._look_up(pointer[: alternative.end()]) is None:
                return outer
        return pointer

    def _look_up(self, pointer: str) -> Json:
        """Returns what the document has at the pointer; None if it has nothing there."""
        if pointer not in self._places:
            outer, _, step = pointer.rpartition("/")
            self._places[pointer] = find_member(self._look_up(outer), unescape(step))
        return self._places[pointer]
