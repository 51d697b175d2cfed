"""The size of a document: how many subschemas it may have."""

from typing import NoReturn

from grammars.errors import SchemaError
from grammars.schema.nodes import Json
from grammars.schema.subschemas import count_subschemas

MAX_SUBSCHEMAS = 15_000
"""Subschemas of a document, without definitions that nothing refers to. jsonschema-rs reads all of
them in one call, 2 to 4 us for each, during which all other threads wait. A higher limit alone
would admit no more: FHIR R4 (15,364) takes 253,000 steps, and lowering may take 60,000."""


def limit_size(document: Json) -> None:
    """Refuses a document that has too many subschemas.

    Raises:
        SchemaError: it has too many.
    """
    count = count_subschemas(document)
    if count > MAX_SUBSCHEMAS:
        refuse_size(f"{count:,} subschemas")


def refuse_size(subschemas: str) -> NoReturn:
    """Refuses a document that has too many subschemas.

    Args:
        subschemas: how many it has, in words.

    Raises:
        SchemaError: always.
    """
    message = f"the schema has {subschemas}, the limit is {MAX_SUBSCHEMAS:,}"
    hint = "Split the tool, or allow any value in parts of it"
    raise SchemaError(message, where="", hint=hint)
