"""Values instead of calls: a pydantic model, an expression, a choice.

python -m examples.structured
"""

from typing import Any, Literal, assert_type

from pydantic import BaseModel, Field

from constrained import load


class Invoice(BaseModel):
    """What is to be paid."""

    number: str = Field(pattern=r"^[A-Z]{2}-\d{4}$")
    total: float = Field(ge=0, le=1_000_000)
    currency: Literal["EUR", "USD"]
    positions: list[Literal["hardware", "service"]] = Field(max_length=3)


LETTER = "Please pay 120 euros for invoice AB-1234: one keyboard, and its repair."


def main() -> None:
    """Asks for three values."""
    options: dict[str, Any] = {"reasoning_budget": 32, "max_tokens": 300}
    with load() as model:
        invoice = model.generate(LETTER, schema=Invoice, **options)
        assert_type(invoice, Invoice)  # for type checkers, too
        print(type(invoice).__name__, invoice.model_dump())
        day = model.generate(f"When? {LETTER}", regex=r"\d{4}-\d{2}-\d{2}", **options)
        assert_type(day, str)
        print("regex ", day)
        print("choice", model.generate(f"Spam? {LETTER}", choice=["yes", "no"], **options))


if __name__ == "__main__":
    main()
