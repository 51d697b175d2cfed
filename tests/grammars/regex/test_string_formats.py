"""Formats, above all those beyond JSON Schema: they take what is usual, and no more than Python."""

import base64
import datetime
import ipaddress
import re
import uuid
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.errors import SchemaError
from grammars.regex.string_formats import FORMATS, FURTHER_FORMATS, NARROWED
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Schema

READERS: dict[str, Callable[[str], object]] = {
    "date": datetime.date.fromisoformat,
    "time-local": datetime.time.fromisoformat,
    "iso-time": datetime.time.fromisoformat,
    "date-time-local": datetime.datetime.fromisoformat,
    "iso-date-time": datetime.datetime.fromisoformat,
    "date-time": datetime.datetime.fromisoformat,
    "uuid4": uuid.UUID,
    "ipv4interface": ipaddress.IPv4Interface,
    "ipv6interface": ipaddress.IPv6Interface,
    "ipvanyaddress": ipaddress.ip_address,
    "ipvanyinterface": ipaddress.ip_interface,
    "ipv4network": ipaddress.IPv4Network,
    "ipv6network": ipaddress.IPv6Network,
    "ipvanynetwork": ipaddress.ip_network,
    "base64": lambda text: base64.b64decode(text, validate=True),
    "base64url": base64.urlsafe_b64decode,
    "base64-text": lambda text: base64.b64decode(text, validate=True).decode("ascii"),
    "base64url-text": lambda text: base64.urlsafe_b64decode(text).decode("ascii"),
    "python-complex": complex,
}


@cache
def lower_format(name: str) -> Schema:
    return lower({"type": "string", "format": name}, only_object=False)


def fits(name: str, text: str) -> bool:
    return lower_format(name).admits(text)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=25)
@given(data=st.data())
def test_python_reads_what_the_format_takes(name: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(FORMATS[name], fullmatch=True))
    READERS[name](text.upper() if "time" in name else text)
    assert fits(name, text)


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_every_network_of_version_4(address: ipaddress.IPv4Address, length: int) -> None:
    network = ipaddress.ip_network((int(address), length), strict=False)
    assert re.fullmatch(FORMATS["ipv4network"], str(network))


@given(st.binary(max_size=9), st.text(st.characters(max_codepoint=127), max_size=9))
def test_every_text_in_base_64(data: bytes, text: str) -> None:
    assert fits("base64", base64.b64encode(data).decode())
    assert fits("base64url", base64.urlsafe_b64encode(data).decode())
    assert fits("base64-text", base64.b64encode(text.encode()).decode())
    assert fits("base64url-text", base64.urlsafe_b64encode(text.encode()).decode())


@pytest.mark.parametrize(
    ("name", "text", "taken"),
    [
        ("date", "0000-01-01", False),
        ("date", "0001-01-01", True),
        ("date", "0000-02-29", False),
        ("time", "23:59:60Z", False),
        ("date-time", "2016-12-31T23:59:60Z", False),
        ("iso-time", "07:00:00", True),
        ("iso-time", "07:00:00+02:00", True),
        ("time-local", "07:00:00+02:00", False),
        ("iso-date-time", "2026-03-03T07:00:00", True),
        ("date-time-local", "2026-03-03T07:00:00Z", False),
        ("uuid4", "123e4567-e89b-42d3-a456-426614174000", True),
        ("uuid4", "123e4567-e89b-12d3-a456-426614174000", False),
        ("ipv4network", "172.16.0.0/12", True),
        ("ipv4network", "172.16.0.1/12", False),
        ("ipv6network", "2001:db8::/32", True),
        ("http-url", "https://example.com/a?b=c#d", True),
        ("http-url", "http://127.0.0.1:8080/", True),
        ("http-url", "http://localhost", True),
        ("http-url", "ftp://example.com", False),
        ("http-url", "https://example.com:99999", False),
        ("http-url", "https://", False),
        ("any-url", "postgresql://u:p@db.example.com:5432/app", True),
        ("any-url", "mailto:a@b.example", True),
        ("any-url", "example.com", False),
        ("duration", "P" + "9" * 7 + "D", False),
        ("email-address", "jane.doe@mail.example.com", True),
        ("email-address", "jane@localhost", False),
        ("python-complex", "1+2j", True),
        ("fraction", "1/3", True),
        ("fraction", "1/0", False),
    ],
)
def test_texts(name: str, text: str, taken: bool) -> None:
    assert (re.fullmatch(FORMATS[name], text) is not None) == taken
    if name in FURTHER_FORMATS:
        assert fits(name, text) == taken


def test_what_the_mask_refuses_is_reported() -> None:
    assert NARROWED.keys() <= FORMATS.keys()
    (finding,) = lower({"type": "string", "format": "date"}, only_object=False).report.narrowed
    assert finding.reason == "no year 0"


def test_a_further_format_is_asserted_in_every_draft() -> None:
    for draft in (
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema#",
    ):
        schema = lower(
            {
                "$schema": draft,
                "type": "object",
                "properties": {"x": {"type": "string", "format": "uuid4"}},
            }
        )
        assert schema.report.checked == ()
        assert not schema.admits({"x": "a"})
    with pytest.raises(SchemaError):
        lower(
            {
                "type": "object",
                "properties": {"x": {"const": "a", "format": "uuid4"}},
                "required": ["x"],
            }
        )
