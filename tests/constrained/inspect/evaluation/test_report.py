"""The table, syntax against wits, differences, the picture."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from constrained.inspect.evaluation.asking import AskedWay, ModelAnswer, WayName
from constrained.inspect.evaluation.judging import Judgement
from constrained.inspect.evaluation.picture import draw_picture
from constrained.inspect.evaluation.report import Evaluation
from constrained.inspect.evaluation.rows import QuestionKind

FREE, READ = AskedWay("a", WayName.FREE, ""), AskedWay("a", WayName.READ, "")
MASKED = AskedWay("a", WayName.MASKED, "auto")
KINDS = {"exact": True, "wrong arguments": True, "wrong tool": True, "unfit": False, "none": False}
"""What an answer may be, and whether it is valid."""


def make(
    way: AskedWay, id: str, found: str, *, confidence: float | None = None, seconds: float = 1.0
) -> Judgement:
    """What came of a question that needs a call, or (`silent`, `calls`) of one that needs none."""
    answer = ModelAnswer(tokens=10, seconds=seconds, cut=found == "unfit", confidence=confidence)
    if found in ("silent", "calls"):
        return Judgement(
            way,
            id,
            QuestionKind.IRRELEVANCE,
            called=found == "calls",
            valid=None,
            right_tool=None,
            exact=None,
            no_call=found == "silent",
            answer=answer,
        )
    return Judgement(
        way,
        id,
        QuestionKind.SIMPLE,
        called=found != "none",
        valid=KINDS[found],
        right_tool=found in ("exact", "wrong arguments", "unfit"),
        exact=found == "exact",
        no_call=None,
        answer=answer,
    )


ASKED = {
    "right": ("exact", "exact", "exact"),
    "damaged by the mask": ("exact", "exact", "wrong arguments"),
    "mended by both": ("none", "exact", "exact"),
    "mended by the mask": ("unfit", "unfit", "exact"),
    "valid by the mask": ("unfit", "unfit", "wrong arguments"),
    "no call is meant": ("none", "none", "none"),
    "wrong tool": ("wrong tool", "wrong tool", "wrong tool"),
    "rightly silent": ("silent", "silent", "silent"),
    "wrongly calls": ("calls", "calls", "calls"),
    "wrongly calls, unseen": ("silent", "calls", "calls"),
}
"""Questions: what came of them free, free and read, masked."""


def evaluate(name: str = "a") -> Evaluation:
    judgements: list[Judgement] = []
    for id, founds in ASKED.items():
        for way, found in zip((FREE, READ, MASKED), founds, strict=True):
            way = AskedWay(name, way.name, way.choice)
            confidence = 0.9 if way.name is WayName.MASKED and found != "none" else None
            judgements.append(make(way, id, found, confidence=confidence))
    return Evaluation(tuple(judgements), {name: ["4.50 bits per weight: 100 % Q4_0"]})


def test_syntax_against_wits() -> None:
    [found] = evaluate().weigh()
    assert (found.subject, found.choice, found.rows, found.due) == ("a", "auto", 10, 7)
    assert (found.broken, found.read, found.mended) == (3, 1, 3)
    assert (found.wrong, found.read_right, found.mask_right, found.mask_valid) == (6, 1, 2, 2)
    assert found.faults == {
        "wrong arguments": 1,
        "no call": 1,
        "wrong tool": 1,
        "a call where none is expected": 2,
    }
    assert found.lost == 1
    right = sum(judgement.is_right for judgement in evaluate().judgements[2::3])
    assert found.rows == right + sum(found.faults.values()) + found.lost
    assert str(found).startswith(
        "the syntax fails in 3 of 7 expected calls: the parser alone repairs 1, the mask 3. "
        "Of 6 answers that are wrong as written, the parser makes 1 right, the mask 2; "
        "5 of 10 are wrong either way, by the wits (2 a call where none is expected, 1 "
    )
    assert str(found).endswith("1 are right without the mask, and wrong with it")


def test_the_table() -> None:
    lines = str(evaluate()).splitlines()
    assert lines[:3] == ["## a", "", "4.50 bits per weight: 100 % Q4_0"]
    begin = lines.index(next(line for line in lines if line.startswith("|")))
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[begin:]]
    assert cells[0] == [
        *("questions", "way", "called", "valid", "right tool", "exact", "no call", "cut"),
        *("seconds", "tokens"),
    ]
    table = {(row[0], row[1]): row[2:] for row in cells[2:11]}
    shares = ["71%", "43%", "57%", "29%", "", "29%", "1.0", "10"]
    assert table["7 simple", "free"] == shares
    assert table["3 irrelevance", "masked, auto"] == ["67%", "", "", "", "33%", "0%", "1.0", "10"]
    assert table["10 all", "masked, auto"][3] == "43%"


def test_the_page_shows_a_table_as_it_is_printed() -> None:
    page = (Path(__file__).parents[4] / "docs" / "eval.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^```\n(\| questions .*?)```", page, re.MULTILINE | re.DOTALL)
    printed = next(line for line in str(evaluate()).splitlines() if line.startswith("| questions"))
    assert shown.splitlines()[0].split() == printed.split()
    assert "> With auto, the syntax fails in " in page
    assert "expected calls: the parser alone repairs " in page


def test_the_median_of_seconds_and_errors() -> None:
    failed = ModelAnswer(error="status 500", seconds=9.0)
    judgements = [make(FREE, f"{n}", "exact", seconds=float(n)) for n in range(1, 4)]
    judgements.append(
        Judgement(FREE, "4", QuestionKind.SIMPLE, False, False, False, False, None, failed)
    )
    [_, row] = Evaluation(tuple(judgements)).summarise()
    assert (row.rows, row.seconds, row.errors, row.exact) == (4, 2.5, 1, 0.75)
    assert judgements[-1].fault == "errors"


def test_models_are_compared_with_the_first_in_the_same_way() -> None:
    other = AskedWay("b", WayName.MASKED, "auto")
    served = AskedWay("http://127.0.0.1:1", WayName.SERVED, "auto")
    judgements = list(evaluate().judgements)
    for id in list(ASKED)[:4]:
        judgements.append(make(other, id, "none"))
        judgements.append(make(served, id, "exact"))
    found = {(one.way, one.measure): one for one in Evaluation(tuple(judgements)).compare()}
    assert {one.base for one in found.values()} == {MASKED}
    assert [*found] == [(other, "valid"), (other, "exact"), (served, "valid"), (served, "exact")]
    worse = found[other, "valid"]
    assert (worse.rows, worse.interval.mean, worse.interval.has_difference) == (4, -1.0, True)
    assert str(worse) == "valid -100.0 (-100.0 to -100.0)"
    better = found[served, "exact"]
    assert better.interval.mean == 0.25
    assert str(better).endswith("no difference seen")


def test_confidence_is_held_against_exact_calls() -> None:
    calibrations = evaluate().calibrate()
    assert [*calibrations] == [MASKED]
    [bucket] = calibrations[MASKED].buckets
    assert (bucket.count, bucket.exact) == (9, 3 / 9)
    assert calibrations[MASKED].error == pytest.approx(0.9 - 3 / 9)


def test_the_report_as_json() -> None:
    found = json.loads(json.dumps(evaluate().to_json()))
    assert [*found] == [
        *("notes", "models", "figures", "syntax_or_wits", "differences", "calibration"),
        "answers",
    ]
    assert len(found["figures"]) == 9
    assert found["figures"][0]["way"] == {"subject": "a", "name": "free", "choice": ""}
    assert len(found["answers"]) == 3 * len(ASKED)
    last = found["answers"][-1]
    assert (last["id"], last["fault"]) == ("wrongly calls, unseen", "a call where none is expected")
    assert (last["subject"], last["name"], last["seconds"]) == ("a", "masked", 1.0)


def test_the_picture_is_well_formed() -> None:
    name = "<a&b>\x1b\x00.gguf"
    root = ElementTree.fromstring(draw_picture(evaluate(name)))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:3] == ["<a&b>??.gguf", "free", "43%, 29%"]
    widths = [float(r.attrib["width"]) for r in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert max(widths[1:]) == 400


def test_nothing_was_asked() -> None:
    assert Evaluation(()).summarise() == []
    assert str(Evaluation(())) == ""
    ElementTree.fromstring(draw_picture(Evaluation(())))
