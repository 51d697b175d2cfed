"""The size of a document: how many subschemas it may have, and how long their pointers may be."""

from typing import NoReturn

from grammars.errors import SchemaError
from grammars.schema.nodes import Json
from grammars.schema.subschemas import measure_document

MAX_SUBSCHEMAS = 15_000
"""Subschemas of a document, without definitions that nothing refers to. jsonschema-rs reads all of
them in one call, 2 to 4 us for each, during which all other threads wait. A higher limit alone
would admit no more: FHIR R4 (15,364) takes 253,000 steps, and lowering may take 60,000."""
MAX_POINTERS = 32_000_000
"""Characters of the JSON pointers of all keywords and subschemas of a document together.
jsonschema-rs keeps all of them: a key of 900 kB around 3,000 other keys would take gigabytes."""


def limit_size(document: Json) -> None:
    """Refuses a document that has too many subschemas, or too long names of keys around them.

    Raises:
        SchemaError: it has.
    """
    size = measure_document(document)
    if size.subschemas > MAX_SUBSCHEMAS:
        refuse_size(f"{size.subschemas:,} subschemas")
    if size.pointers > MAX_POINTERS:
        message = (
            f"the JSON pointers of the schema have {size.pointers:,} characters together, "
            f"the limit is {MAX_POINTERS:,}"
        )
        hint = "Shorten the names of keys and definitions that have others inside them"
        raise SchemaError(message, where="", hint=hint)


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
