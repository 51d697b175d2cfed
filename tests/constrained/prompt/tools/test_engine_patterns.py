"""Patterns declared in Python: what the mask takes, the engine of pydantic takes too."""

import re
import warnings
from typing import Annotated, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter
from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from constrained.prompt.tools.engine_patterns import write_engine_pattern
from constrained.prompt.tools.functions import FunctionTool
from constrained.prompt.tools.python_types import describe_type
from grammars.errors import ToolError
from grammars.regex.automaton import compile_regexes
from grammars.regex.ecma import read_pattern
from grammars.regex.reader import PatternError
from grammars.schema.validator import Validator

ODD = "ab1_- \nAé\x1c\x1f\x85\ufeff\xa0\u2028\r³٣ⅷⓐ日\u200d\u0301‿İıſK.–😀"
TEXTS = st.text(ODD, max_size=5)
MEMBERS = st.sampled_from(
    [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", "a-f", "1", "_", r"\-", "-", r"\x41", "k"]
)
CLASSES = st.builds(
    "[{}{}]".format, st.sampled_from(["", "^"]), st.lists(MEMBERS, min_size=1).map("".join)
)
ATOMS = CLASSES | st.sampled_from(
    [
        *(r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\b", r"\B", "^", "$", ".", "a", "i", " "),
        *("_", r"\-", "#", r"\A", r"\Z", r"\z", r"\x41", r"\u00e9", r"\pL", r"\PN", r"\p{Greek}"),
        *(r"\x{41}", "[[:alpha:]1]", "[[:punct:]]", r"[^\PL]", r"[\PL_]", "{", "a{,2}", "]"),
    ]
)  # fmt: skip


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = ["(?:", "(", "(?=", "(?!", "(?<=", "(?<!", "(?P<n>", "(?i:", "(?m:", "(?s:", "(?x:"]
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?", "{2,}"])
    return (
        st.lists(inner, max_size=4).map("".join)
        | st.tuples(inner, inner).map("|".join)
        | st.builds("{}{})".format, st.sampled_from(groups), inner)
        | st.builds("(?:{}){}".format, inner, counts)
    )


PATTERNS = st.builds(
    "{}{}".format,
    st.sampled_from(["", "", "(?i)", "(?m)", "(?s)", "(?x)", "(?im)"]),
    st.recursive(ATOMS, combine, max_leaves=6),
)


def make_engine(pattern: Any, engine: Any) -> SchemaValidator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a set in a set may mean something else one day
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine=engine))


def takes(validator: SchemaValidator, text: str) -> bool:
    try:
        validator.validate_python(text)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("engine", ["rust-regex", "python-re"])
@settings(max_examples=max(25, settings().max_examples // 3))  # large classes take long
@given(pattern=PATTERNS, texts=st.lists(TEXTS, max_size=8), prefix=st.booleans())
def test_what_the_mask_takes_the_engine_takes(
    engine: str, pattern: str, texts: list[str], prefix: bool
) -> None:
    if prefix:
        pattern = f"^{pattern}$"
    try:
        validator = make_engine(pattern, engine)
    except SchemaError:
        reject()
    try:
        written = write_engine_pattern(pattern, is_python=engine == "python-re")
    except PatternError:
        reject()
    reading = read_pattern(written)
    if reading is None or reading.left_out:
        reject()
    automaton = compile_regexes((reading.regex,))
    assert automaton is not None
    for text in [*texts, *ODD]:
        if automaton.accepts(text):
            assert takes(validator, text), (written, text)


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (r"^[\w.-]+@\d{3}\-[a-z]$", r"^[\w.-]+@\d{3}\-[a-z]$"),
        (r"(?i)^(?P<n>a.)$", r"(?i)^(?P<n>a.)$"),
        (r"^\S+$", r"^[^\s\x1c-\x1f\x85]+$"),
        (r"^[\s,]$", r"^(?:[,]|[^\S\ufeff])$"),
        (r"^[^\d]$", r"^[^\p{Nd}\p{Cn}]$"),
        (r"^[\s\S]$", r"^[\s\S]$"),
        (r"\Aa\z", "^a$"),
        (r"(?x) a b # c", "ab"),
        (r"(?m)^a", r"(?<![^\n])a"),
        (r"[[:alpha:]_]\pL\x{41}", r"[A-Za-z_]\p{L}\u{41}"),
        (re.compile("^a b$", re.IGNORECASE | re.VERBOSE), "(?i)^ab$"),
        (re.compile("^(?!a$).{,3}$"), r"^(?!a(?=\n?$)).{0,3}$"),
    ],
)
def test_a_pattern_is_only_written_where_it_matters(
    pattern: str | re.Pattern[str], written: str
) -> None:
    assert write_engine_pattern(pattern, is_python=False) == written


@pytest.mark.parametrize(
    "pattern",
    ["[a-z&&[^b]]", r"[a--\S]", "[a[b]]", r"\b{start}a", r"\<a", "(?R)^a", "(?-u:a)", "a{2}{3}"],
)
def test_what_has_no_counterpart_is_refused(pattern: str) -> None:
    def search(text: str) -> None: ...

    search.__annotations__["text"] = Annotated[str, Field(pattern=pattern)]
    with pytest.raises(ToolError, match=r"parameter 'text' .* a pattern: .*, at "):
        FunctionTool.from_function(search)


class Python(BaseModel):
    model_config = ConfigDict(regex_engine="python-re", str_strip_whitespace=True)
    code: Annotated[str, Field(pattern=r"^(?!\d\Z)\S\Z")]
    words: dict[Annotated[str, Field(pattern=r"^\S$")], int]


def test_the_engine_is_that_of_the_model() -> None:
    code, words = describe_type(Python)["properties"].values()
    assert code["pattern"] == r"^(?![\p{Nd}\p{Cn}]$)[^\s\x1c-\x1f\x85]$"
    assert code["allOf"] == [{"pattern": r"^([^\s\x1c-\x1f\x85](.*[^\s\x1c-\x1f\x85])?)?$"}]
    assert list(words["patternProperties"]) == [r"^[^\s\x1c-\x1f\x85]$"]


@given(TEXTS)
def test_stripped_texts_are_those_that_are_measured(text: str) -> None:
    kind = Annotated[
        str, StringConstraints(pattern="^.{2,3}$", min_length=2, strip_whitespace=True)
    ]
    if Validator(describe_type(kind), {}).admits(text):
        TypeAdapter(kind).validate_python(text)
