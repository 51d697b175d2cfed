"""Bounds of dates and times: expression, comparison and pydantic agree."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Annotated, Any

import pytest
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    FutureDate,
    FutureDatetime,
    PastDate,
    PastDatetime,
    TypeAdapter,
    ValidationError,
)

from grammars.regex.string_formats import FORMATS
from grammars.regex.texts import Texts
from grammars.regex.time_bounds import express_bounds, is_bound, is_within
from grammars.schema.lowering.lower import lower
from grammars.schema.validator import Validator

KEYWORDS = {
    "formatMinimum": Ge,
    "formatExclusiveMinimum": Gt,
    "formatMaximum": Le,
    "formatExclusiveMaximum": Lt,
}
ZONES = st.sampled_from(
    [None, UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=11))]
)
OFFSETS = st.sampled_from(
    [
        timedelta(0),
        timedelta(microseconds=1),
        timedelta(seconds=1),
        timedelta(hours=3),
        timedelta(days=1),
        timedelta(days=40),
        timedelta(days=900),
    ]
)
SIGNS = st.sampled_from([1, -1])


def takes(kind: Any, text: str) -> bool:
    try:
        TypeAdapter(kind).validate_json(f'"{text}"')
    except ValidationError:
        return False
    return True


def shift(instant: datetime, offset: timedelta, sign: int) -> datetime:
    try:
        return instant + sign * offset
    except OverflowError:
        return instant


@given(st.sampled_from([*KEYWORDS]), st.datetimes(), ZONES, OFFSETS, SIGNS, ZONES)
def test_times_within_a_bound(
    keyword: str, local: datetime, zone: Any, offset: timedelta, sign: int, other: Any
):
    if not 2 < local.year < 9998:
        zone = None
    bound = local.replace(tzinfo=zone)
    value = shift(local, offset, sign).replace(tzinfo=other)
    within = is_within("iso-date-time", keyword, bound.isoformat(), value.isoformat())
    assert within == takes(Annotated[datetime, KEYWORDS[keyword](bound)], value.isoformat())
    expression = express_bounds("iso-date-time", {keyword: bound.isoformat()})
    written = Texts((expression,)).accepts(value.isoformat())
    assert within or not written
    is_exact = zone is None or other in (None, UTC)
    is_of_a_second = value.replace(microsecond=0) == bound.replace(microsecond=0, tzinfo=other)
    if within and is_exact and not (is_of_a_second or bound.microsecond):
        assert written


@given(st.sampled_from([*KEYWORDS]), st.dates(), OFFSETS, SIGNS)
def test_dates_within_a_bound(keyword: str, bound: date, offset: timedelta, sign: int):
    value = shift(datetime.combine(bound, time()), offset, sign).date()
    within = is_within("date", keyword, f"{bound}", f"{value}")
    assert within == takes(Annotated[date, KEYWORDS[keyword](bound)], f"{value}")
    assert Texts((express_bounds("date", {keyword: f"{bound}"}),)).accepts(f"{value}") == within


@given(st.sampled_from([*KEYWORDS]), st.times(), st.times())
def test_times_of_the_day_within_a_bound(keyword: str, bound: time, value: time):
    whole = value.replace(microsecond=0)
    within = is_within("iso-time", keyword, f"{bound}", f"{whole}")
    assert within == takes(Annotated[time, KEYWORDS[keyword](bound)], f"{whole}")
    assert Texts((express_bounds("iso-time", {keyword: f"{bound}"}),)).accepts(f"{whole}") == within


@given(st.dates(), st.dates())
def test_two_bounds_leave_what_is_between(low: date, high: date):
    bounds = {"formatMinimum": f"{low}", "formatMaximum": f"{high}"}
    assert Texts((express_bounds("date", bounds),)).has_text(10_000) == (low <= high)


@pytest.mark.parametrize("format", [name for name in FORMATS if "date" in name or "time" in name])
def test_what_is_a_bound(format: str):
    texts = {"date": "2024-02-29", "time": "09:00:00Z"}
    text = texts.get(format, "2024-02-29T09:00:00Z")
    if format.endswith("local"):
        text = text.removesuffix("Z")
    if format in ("time-local", "iso-time"):
        text = "09:00:00"
    assert is_bound(format, text)
    assert not is_bound(format, "2023-02-29")
    assert not is_bound(format, 5)
    assert not is_bound("email", text)


def test_bounds_are_keywords_of_a_schema() -> None:
    schema = {"type": "string", "format": "date", "formatMinimum": "2024-03-10"}
    lowered = lower({**schema, "formatMaximum": "2024-30-10"}, only_object=False)
    assert {finding.keyword for finding in lowered.report.ignored} == {"formatMaximum"}
    for text, fits in (("2024-03-09", False), ("2024-03-10", True), ("2031-01-01", True)):
        assert lowered.admits(text) == fits
        assert Validator(schema, schema).admits(text) == fits
    (unfit,) = lowered.find_errors("2024-03-09")
    assert "beyond the formatMinimum of '2024-03-10'" in unfit.message


DISTANCES = st.timedeltas(min_value=timedelta(minutes=1), max_value=timedelta(days=9_000))


@given(DISTANCES, SIGNS, ZONES)
def test_times_are_compared_with_now(distance: timedelta, sign: int, zone: Any):
    text = (datetime.now(zone) + sign * distance).isoformat()
    assert is_bound("iso-date-time", "now")
    is_past = is_within("iso-date-time", "formatExclusiveMaximum", "now", text)
    is_future = is_within("iso-date-time", "formatExclusiveMinimum", "now", text)
    assert (is_past, is_future) == (takes(PastDatetime, text), takes(FutureDatetime, text))
    assert is_past is not is_future


@given(st.integers(-3, 3) | st.integers(-9_000, 9_000))
def test_days_are_compared_with_today(days: int):
    text = f"{date.today() + timedelta(days=days)}"
    is_past = is_within("date", "formatExclusiveMaximum", "now", text)
    is_future = is_within("date", "formatExclusiveMinimum", "now", text)
    assert (is_past, is_future) == (takes(PastDate, text), takes(FutureDate, text))
    assert (is_past, is_future) == (days < 0, days > 0)


def test_now_is_no_time_of_a_day():
    assert not is_bound("time", "now")


def test_now_is_checked_since_it_changes():
    schema = {"type": "string", "format": "date", "formatExclusiveMinimum": "now"}
    lowered = lower(schema, only_object=False)
    assert {finding.keyword for finding in lowered.report.checked} == {"formatExclusiveMinimum"}
    assert lowered.admits("9999-12-31")
    assert not lowered.admits("2000-01-01")
