"""Annotations as people write them; the mask of each says all that its conversion demands."""

import collections
import datetime
import decimal
import enum
import fractions
import ipaddress
import pathlib
import re
import typing
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar

import msgspec
import pydantic
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Size(enum.StrEnum):
    SMALL = "s"
    LARGE = "l"


class Corner(enum.Enum):
    LEFT = (0, 0)
    RIGHT = (1, 0)


class Holiday(enum.Enum):
    NEW_YEAR = datetime.date(2025, 1, 1)


class Apple(BaseModel):
    kind: Literal[Color.RED]
    weight: float = Field(gt=0)


class Pear(BaseModel):
    kind: Literal[Color.GREEN]
    ripe: bool = False


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Movie(TypedDict):
    title: str
    released: NotRequired[datetime.date]


@dataclass
class Invoice:
    number: str
    total: decimal.Decimal
    due: datetime.date | None = None


class Page(BaseModel, Generic[T]):
    items: list[T]
    more: bool = False


class Folder(BaseModel):
    name: str
    folders: list["Folder"] = []


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    day: datetime.date
    key: uuid.UUID
    count: int


Money = Annotated[decimal.Decimal, Field(max_digits=8, decimal_places=2, ge=0)]


class Return(msgspec.Struct, tag="return", forbid_unknown_fields=True):
    reason: Annotated[str, msgspec.Meta(pattern="^[A-Z]", max_length=9)]


class Shipment(msgspec.Struct, tag="shipment", rename="camel"):
    sent_on: datetime.date
    cost: decimal.Decimal = decimal.Decimal("1.5")
    parts: "list[Shipment]" = msgspec.field(default_factory=list)
    note: str | msgspec.UnsetType = msgspec.UNSET


class Parcel(msgspec.Struct, Generic[T]):
    item: T


class Track(msgspec.Struct, array_like=True, tag="track"):
    title: str
    marks: "list[Track]" = []
    length: float | msgspec.UnsetType = msgspec.UNSET


@dataclass
class Album:
    first: Track
    returns: list[Return] = field(default_factory=list)


class Shelf(TypedDict):
    albums: "dict[str, Album]"
    parcel: NotRequired[Parcel[Return]]


class Mixed(enum.Enum):
    NUMBER = 1
    NOTHING = None
    HALF = 2.5
    TEXT = "b"


ANNOTATIONS: Mapping[str, Any] = {
    "int": int,
    "positive": pydantic.PositiveInt,
    "float": float,
    "finite": pydantic.FiniteFloat,
    "step": Annotated[float, Field(multiple_of=0.01)],
    "bool": bool,
    "str": str,
    "pattern": Annotated[str, Field(pattern="^[a-z]{2,5}$")],
    "pattern behind a validator": Annotated[str, AfterValidator(str), Field(pattern="^[a-z]{2}$")],
    "pattern of any case": Annotated[str, Field(pattern=r"(?i)^(yes|no)\b\W?$")],
    "pattern of Rust": Annotated[str, Field(pattern=r"(?x)\A \b [[:alpha:]\d]{2,5} \W? \S* \z")],
    "pattern of Python": Annotated[str, Field(pattern=re.compile(r"^(?!\d)[^\s,]{1,9}\b\Z"))],
    "stripped": Annotated[str, StringConstraints(strip_whitespace=True, min_length=2)],
    "Decimal": decimal.Decimal,
    "Decimal digits, places": Money,
    "Decimal digits": Annotated[decimal.Decimal, Field(max_digits=5)],
    "Decimal places": Annotated[decimal.Decimal, Field(decimal_places=3, gt=-1, lt=1)],
    "Decimal many digits": Annotated[decimal.Decimal, Field(max_digits=30, decimal_places=4)],
    "Fraction": fractions.Fraction,
    "complex": complex,
    "date": datetime.date,
    "time": datetime.time,
    "datetime": datetime.datetime,
    "NaiveDatetime": pydantic.NaiveDatetime,
    "AwareDatetime": pydantic.AwareDatetime,
    "timedelta": datetime.timedelta,
    "UUID": uuid.UUID,
    **{f"UUID{version}": getattr(pydantic, f"UUID{version}") for version in (1, 3, 4, 5, 6, 7, 8)},
    "IPv4Address": ipaddress.IPv4Address,
    "IPv6Address": ipaddress.IPv6Address,
    "IPv4Interface": ipaddress.IPv4Interface,
    "IPv6Interface": ipaddress.IPv6Interface,
    "IPv4Network": ipaddress.IPv4Network,
    "IPv6Network": ipaddress.IPv6Network,
    "IPvAnyAddress": pydantic.IPvAnyAddress,
    "IPvAnyInterface": pydantic.IPvAnyInterface,
    "IPvAnyNetwork": pydantic.IPvAnyNetwork,
    **{
        name: getattr(pydantic, name)
        for name in (
            "AnyUrl AnyHttpUrl HttpUrl WebsocketUrl AnyWebsocketUrl FileUrl FtpUrl PostgresDsn "
            "CockroachDsn AmqpDsn RedisDsn MongoDsn KafkaDsn NatsDsn MySQLDsn MariaDBDsn "
            "ClickHouseDsn SnowflakeDsn"
        ).split()
    },
    "Path": pathlib.Path,
    "bytes": bytes,
    "bytes length": Annotated[bytes, Field(min_length=1, max_length=5)],
    "Base64Bytes": pydantic.Base64Bytes,
    "Base64Str": pydantic.Base64Str,
    "Base64UrlBytes": pydantic.Base64UrlBytes,
    "Base64UrlStr": pydantic.Base64UrlStr,
    "SecretStr": Annotated[pydantic.SecretStr, Field(min_length=3)],
    "SecretBytes": pydantic.SecretBytes,
    "set": set[int],
    "set of enum": set[Color],
    "frozenset": Annotated[frozenset[str], Field(max_length=2)],
    "Enum": Color,
    "IntEnum": Level,
    "str Enum": Size,
    "Enum of tuples": Corner,
    "Enum of dates": Holiday,
    "Literal": Literal["a", 1, None, True],
    "Literal of Enum": Literal[Color.RED],
    "Literal of Enums": Literal[Color.RED, Level.LOW, "x"],
    "discriminated": Annotated[Apple | Pear, Field(discriminator="kind")],
    "dict of int": dict[int, str],
    "dict of positive": dict[pydantic.PositiveInt, int],
    "dict of limits": dict[Annotated[int, Field(ge=5, le=20)], int],
    "dict of float": dict[float, bool],
    "dict of bool": dict[bool, int],
    "dict of Enum": dict[Color, int],
    "dict of IntEnum": dict[Level, int],
    "dict of UUID": dict[uuid.UUID, int],
    "dict of date": dict[datetime.date, int],
    "dict of pattern": dict[Annotated[str, Field(pattern="^[a-z]+$")], int],
    "dict of int or bool": dict[int | bool, int],
    "dict of literals": dict[Literal[1, True, "a"], int],
    "dict of mixed values": dict[Mixed, int],
    "dict of int or literal": dict[Literal["a"] | int | None, int],
    "dict of Fraction": dict[fractions.Fraction, int],
    "dict of money": dict[Money, int],
    "dict of floats within bounds": dict[Annotated[float, Field(gt=0, le=1)], int],
    "dict of dates within bounds": dict[
        Annotated[datetime.date, Field(ge=datetime.date(2024, 2, 28))], int
    ],
    "defaultdict": collections.defaultdict[str, list[int]],
    "Counter": collections.Counter[str],
    "OrderedDict": typing.OrderedDict[str, int],
    "deque": collections.deque[int],
    "Sequence": Sequence[int],
    "Iterable": Iterable[int],
    "tuple": tuple[int, str],
    "tuple of any length": tuple[datetime.date, ...],
    "Optional": int | None,
    "union": int | datetime.date | list[bool],
    "Json": pydantic.Json[list[int]],
    "NamedTuple": Point,
    "TypedDict": Movie,
    "dataclass": Invoice,
    "generic": Page[Money],
    "recursive": Folder,
    "strict": Strict,
    "dates within bounds": Annotated[
        datetime.date, Field(gt=datetime.date(2024, 2, 28), le=datetime.date(2025, 1, 31))
    ],
    "times within bounds": Annotated[
        datetime.datetime,
        Field(ge=datetime.datetime(2024, 1, 1, 9), lt=datetime.datetime(2024, 6, 1)),
    ],
    "times within a zone": Annotated[
        pydantic.AwareDatetime, Field(gt=datetime.datetime(2024, 1, 1, 9, tzinfo=datetime.UTC))
    ],
    "times of a day": Annotated[
        datetime.time, Field(ge=datetime.time(9), lt=datetime.time(17, 30))
    ],
    "durations within bounds": Annotated[
        datetime.timedelta,
        Field(gt=datetime.timedelta(0), le=datetime.timedelta(days=2, hours=3)),
    ],
    "union within bounds": Annotated[int | float, Field(ge=1, lt=9)],
    "ByteSize": pydantic.ByteSize,
    "union with a pattern": Annotated[int | str, Field(pattern="^[a-z]{2}$")],
    "Struct": Shipment,
    "Structs": list[Shipment | Return],
    "Struct as array": Track,
    "Structs in classes": Shelf,
    "generic Struct": Parcel[datetime.date],
    "Meta": Annotated[int, msgspec.Meta(ge=3, lt=9)],
    "Any": Any,
}
