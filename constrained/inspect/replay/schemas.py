"""Checks JSON Schemas without a model: what the mask enforces of each, and which instances it
accepts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from constrained.errors import GrammarError, RequestError
from constrained.inspect.replay.instances import InstanceTrial, to_json
from constrained.prompt.tools.reports import STATES, explain_refusal, show_report
from grammars.errors import Error, SchemaError
from grammars.schema.lowering.lower import lower

_HINT = "Write it as a JSON Schema of draft 2020-12; `pointer` says where it is not valid"


def check_schemas(
    rows: Iterable[Mapping[str, Any] | Error], *, close: bool = False
) -> Iterator[dict[str, Any]]:
    """Checks schemas with the vocabulary of bytes.

    Args:
        rows: `{id, schema, tests: [{data, valid?}]}`; the schema may be true or false. An error
            takes the place of a row that could not be read.
        close: objects with declared properties and without `additionalProperties` allow no others.

    Yields:
        one answer for each row, in order: `{id, compiles, enforced, checked, repaired, narrowed,
            ignored, refused, results, error}`. The lists hold `{pointer, keyword, reason}`: what
            the mask enforces, what is checked after generation, what is read in another meaning,
            what the mask allows only in part, unknown keywords, and why there is no mask (with a
            `hint`). `results` has `{accepted, delivered}` for each test: `accepted`: the mask
            accepts the instance in the spelling of `json.dumps(data, ensure_ascii=False)`;
            `delivered`: it is also valid (formats asserted; the draft of `$schema`, else 2020-12).
            If the mask refuses it, `refused_at` is the place: `{pointer, offset, found, expected}`
            (JSON pointer, offset in bytes). A row that cannot be checked has the reason in `error`.
    """
    for row in rows:
        try:
            answer = _check(row, close)
        except Error as e:
            answer = {"error": str(e)}
        id = row.get("id") if isinstance(row, Mapping) else None
        yield {"id": id, **_EMPTY, **answer}


_EMPTY: Mapping[str, Any] = {
    "compiles": False,
    **{state: [] for state in STATES},
    "refused": [],
    "results": [],
    "error": None,
}


def _check(row: Mapping[str, Any] | Error, close: bool) -> dict[str, Any]:
    if isinstance(row, Error):
        raise row
    if "schema" not in row:
        raise RequestError("the row has no schema", where="/schema")
    instances = _read_instances(row)
    try:
        schema = lower(row["schema"], close=close, only_object=False)
        trial = InstanceTrial(schema)
    except (SchemaError, GrammarError) as e:
        nothing = [{"accepted": False, "delivered": False} for _ in instances]
        return {"refused": [explain_refusal(e, _HINT)], "results": nothing, "error": str(e)}
    return {
        "compiles": True,
        **show_report(schema.report),
        "results": [_try_out(instance, trial) for instance in instances],
        "error": trial.error,
    }


def _try_out(instance: Any, trial: InstanceTrial) -> dict[str, Any]:
    place = trial.find_refusal(instance)
    if place is not None:
        return {"accepted": False, "delivered": False, "refused_at": to_json(place)}
    return {"accepted": True, "delivered": trial.schema.admits(instance)}


def _read_instances(row: Mapping[str, Any]) -> list[Any]:
    tests = row.get("tests")
    if tests is None:
        return []
    if not isinstance(tests, list):
        raise RequestError("tests must be a list", where="/tests")
    for i, test in enumerate(tests):
        if not isinstance(test, Mapping) or "data" not in test:
            raise RequestError("the test has no data", where=f"/tests/{i}/data")
    return [test["data"] for test in tests]
