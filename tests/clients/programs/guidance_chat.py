"""guidance, as a client of Chat Completions: it reads the log probabilities of all tokens, and puts
the text together from them."""

import json
from typing import Any

import report
from guidance import assistant, gen, models, user
from guidance import json as gen_json
from report import scenario


def make() -> Any:
    return models.OpenAI("demo", base_url=f"{report.URL}/v1", api_key="none", echo=False)


def ask(question: str, written: Any) -> Any:
    model = make()
    with user():
        model += question
    with assistant():
        model += written
    return model


@scenario
def plain() -> Any:
    model = ask(report.GREETING, gen("answer", max_tokens=50))
    assert model["answer"]
    return model["answer"]


@scenario
def round_trip() -> Any:
    """A second question after the first answer."""
    model = ask(report.GREETING, gen("answer", max_tokens=50))
    with user():
        model += "Thank you!"
    with assistant():
        model += gen("again", max_tokens=50)
    assert model["again"]
    return model["again"]


@scenario
def round_trip__typed() -> Any:
    written = ask(report.QUESTION, gen_json("answer", schema=report.PARAMETERS, max_tokens=200))
    return report.check_weather("get_weather", json.loads(written["answer"]))


@scenario
def error() -> Any:
    try:
        ask(report.QUESTION, gen("answer", max_tokens=-7))
    except Exception as refusal:
        assert "max_" in str(refusal), refusal
        return type(refusal).__name__
    raise AssertionError("it was not refused")


report.main()
