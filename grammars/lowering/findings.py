"""Collects what happens to each keyword of a document during lowering."""

from collections.abc import Iterable

from grammars.schema.nodes import Finding, Json, Report
from grammars.schema.subschemas import find_keywords


class Findings:
    """The findings of one document. If there are several for one keyword at one pointer, the first
    one counts.

    Args:
        root: the document.
    """

    def __init__(self, root: Json):
        self._keywords = find_keywords(root)
        self.enforced: dict[tuple[str, str], Finding] = {}
        self.checked: dict[tuple[str, str], Finding] = {}
        self._narrowed: dict[tuple[str, str], Finding] = {}
        self._ignored: dict[tuple[str, str], Finding] = {}

    def enforce(self, pointer: str, keyword: str) -> None:
        """The mask enforces the keyword at that JSON pointer."""
        if keyword in self._keywords:  # other keywords come from rewriting, not from the document
            self.enforced.setdefault((pointer, keyword), Finding(pointer, keyword))

    def check(self, pointer: str, keyword: str, reason: str) -> None:
        """The validator checks the keyword after generation."""
        self.checked.setdefault((pointer, keyword), Finding(pointer, keyword, reason))

    def narrow(self, pointer: str, keyword: str, reason: str) -> None:
        """The mask refuses some values that the keyword allows."""
        self._narrowed.setdefault((pointer, keyword), Finding(pointer, keyword, reason))

    def ignore(self, pointer: str, keyword: str) -> None:
        """The keyword is unknown."""
        self._ignored.setdefault((pointer, keyword), Finding(pointer, keyword, "no such keyword"))

    def note(self, pointer: str, keywords: Iterable[str], *, enforced: bool) -> None:
        """The mask enforces these keywords if `enforced`; otherwise the validator checks them."""
        for keyword in sorted(keywords):
            if enforced:
                self.enforce(pointer, keyword)
            else:
                self.check(pointer, keyword, "not enforced by the mask")

    def report(self) -> Report:
        """The report. A keyword that is both enforced and checked counts as checked."""
        enforced = dict(self.enforced)
        for key in self.checked:
            enforced.pop(key, None)
        return Report(
            enforced=tuple(enforced.values()),
            checked=tuple(self.checked.values()),
            narrowed=tuple(self._narrowed.values()),
            ignored=tuple(self._ignored.values()),
        )
