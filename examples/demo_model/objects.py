"""Values that are objects, or lists of them: their schemas, and how a request says them."""

from collections.abc import Callable
from typing import Any

from examples.demo_model import strings
from examples.demo_model.words import Words

Said = tuple[Any, str]
TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _range(words: Words) -> Said:
    low = words.random.randint(1, 60)
    high = low + words.random.randint(1, 200)
    said = words.random.choice(("{} and {}", "{} to {}", "{}-{}")).format(low, high)
    return {"min": low, "max": high}, said


def _size(words: Words) -> Said:
    sizes = (100, 128, 200, 256, 300, 480, 640, 720, 800, 1024, 1080, 1920)
    width, height = words.random.choice(sizes), words.random.choice(sizes)
    said = words.random.choice(("{} by {}", "{}x{}", "{} x {}")).format(width, height)
    return {"width": width, "height": height}, said


def _contact(words: Words) -> Said:
    name, email = strings.person(words), strings.email(words)
    said = words.random.choice(("{} ({})", "{}, {}", "{} <{}>", "{} with the email {}"))
    return {"name": name, "email": email}, said.format(name, email)


def _spot(words: Words) -> Said:
    city, country = words.pick("city"), words.pick("country")
    said = words.random.choice(("{}, {}", "{} in {}", "{} ({})")).format(city, country)
    return {"city": city, "country": country}, said


def _cash(words: Words) -> Said:
    amount = words.random.randint(1, 2000)
    currency, said = strings.currency(words)
    return {"amount": amount, "currency": currency}, f"{amount} {said}"


def _cart(words: Words) -> Said:
    lines = [
        (words.random.randint(1, 9), strings.product(words))
        for _ in range(words.random.choice((1, 2, 2, 3)))
    ]
    value = [{"product": product, "quantity": count} for count, product in lines]
    parts = [f"{count} {product}" for count, product in lines]
    return value, " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


CART = {"type": "array", "items": _object(product=TEXT, quantity=INTEGER)}
OBJECTS: dict[str, tuple[dict[str, Any], Callable[[Words], Said]]] = {
    "range": (_object(min=INTEGER, max=INTEGER), _range),
    "size": (_object(width=INTEGER, height=INTEGER), _size),
    "contact": (_object(name=TEXT, email=TEXT), _contact),
    "spot": (_object(city=TEXT, country=TEXT), _spot),
    "cash": (_object(amount=NUMBER, currency=TEXT), _cash),
    "cart": (CART, _cart),
    "currency": (TEXT, strings.currency),
    "langcode": (TEXT, strings.language_code),
}
