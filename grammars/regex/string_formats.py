"""The formats of JSON Schema as whole-string expressions (RFC 3339, 4122, 2673, 4291, 5321, 1123,
3986, 3987, 6570, 6901), and further ones: of ajv (`iso-time`), of the format registry of OpenAPI
(`time-local`), of pydantic (`uuid4`, `ipv4network`), and our own for other types of Python.

Each admits only what the format admits; but no e-mail addresses with quoted local parts or
addresses for hosts, no host names in Punycode (which must decode to something), no leap seconds
and no year 0.
"""

from collections.abc import Callable
from string import ascii_letters, digits

from grammars.regex.ranges import express_range

_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"({_YEAR}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    f"|02-(0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_LOCAL_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,18})?"
_OFFSET = "([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_SPAN = "[0-9]{1,6}"
_DURATION_TIME = f"T({_SPAN}H({_SPAN}M({_SPAN}S)?)?|{_SPAN}M({_SPAN}S)?|[0-9]{{1,9}}S)"
_DURATION_DATE = f"({_SPAN}Y({_SPAN}M({_SPAN}D)?)?|{_SPAN}M({_SPAN}D)?|{_SPAN}D)"


def _spell_uuids(version: str, variant: str) -> str:
    x = "[0-9a-fA-F]"
    return f"{x}{{8}}-{x}{{4}}-{version}{x}{{3}}-{variant}{x}{{3}}-{x}{{12}}"


_BEYOND = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U0001fffd"
"""Characters of IRIs that are not allowed in URIs."""
_IN_ATOM = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"
_LETTERS = "à-öø-ÿα-ωа-я\u4e00-\u9fa5가-힣"


def _spell_hosts(max_length: int, labels: int, letters: str = "") -> str:
    """Writes host names with up to `labels` labels and `max_length` characters; no label has
    hyphens as its third and fourth character, which would make it Punycode. `letters` are further
    characters of the labels."""
    a, x = f"[A-Za-z0-9{letters}]", rf"[A-Za-z0-9\-{letters}]"
    rest = f"({a}{x}{{0,{max_length - 4}}}{a}|-{a}({x}{{0,{max_length - 5}}}{a})?)"
    label = f"{a}(({x})?{a}|{x}{rest})?"
    return rf"{label}(\.{label}){{0,{labels - 1}}}"


def _spell_addresses(atom: str, host: str) -> str:
    """Writes e-mail addresses, at most 64 characters before the @."""
    return rf"([{atom}]{{1,64}}|[{atom}]{{1,15}}(\.[{atom}]{{1,15}}){{1,3}})@{host}"


_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(\.{_OCTET}){{3}}"
_GROUP = "[0-9a-fA-F]{1,4}"


def _spell_ipv6() -> str:
    """Writes eight groups, or fewer around a `::`; an IPv4 address may replace the last two."""
    options: list[str] = []
    for tail, width in ((_GROUP, 1), (_IPV4, 2)):
        options.append(f"({_GROUP}:){{{8 - width}}}{tail}")
        for before in range(8 - width):
            head = f"{_GROUP}(:{_GROUP}){{{before - 1}}}" if before else ""
            max_groups = 7 - width - before
            options.append(f"{head}::({_GROUP}:){{0,{max_groups}}}{tail}")
    for before in range(8):
        head = f"{_GROUP}(:{_GROUP}){{{before - 1}}}" if before else ""
        options.append(f"{head}::")
    return "|".join(options)


_IPV6 = _spell_ipv6()


def _spell_ipv4_networks(octets: int = 4) -> str:
    """Writes the last octets of an address and the length of its prefix; other bits are zero."""
    if not octets:
        return "/32"
    zeros = r"\.0" * (octets - 1)
    options = [f"0{zeros}/{32 - 8 * octets}"]
    for bits in range(1, 8):
        steps = "|".join(map(str, range(0, 256, 1 << (8 - bits))))
        options.append(f"({steps}){zeros}/{32 - 8 * octets + bits}")
    point = r"\." if octets > 1 else ""
    options.append(f"{_OCTET}{point}({_spell_ipv4_networks(octets - 1)})")
    return "|".join(options)


def _spell_ipv6_networks() -> str:
    """Writes up to seven groups, and the length of a prefix that has all of them."""
    options = [f"::/({express_range({'minimum': 0, 'maximum': 128}, integer=True)})"]
    for groups in range(1, 8):
        lengths = express_range({"minimum": 16 * groups, "maximum": 128}, integer=True)
        options.append(f"{_GROUP}(:{_GROUP}){{{groups - 1}}}::/({lengths})")
    return "|".join(options)


_PREFIX4, _PREFIX6 = "(/(3[0-2]|[12]?[0-9]))?", "(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?"
_INTERFACE4, _INTERFACE6 = f"{_IPV4}{_PREFIX4}", f"({_IPV6}){_PREFIX6}"
_NETWORK4, _NETWORK6 = _spell_ipv4_networks(), _spell_ipv6_networks()
_ESCAPED = "%[0-9A-Fa-f]{2}"


def _spell_references(more: str) -> tuple[str, str]:
    """Writes URIs, and URIs or relative references; `more` are further allowed characters."""
    plain = rf"A-Za-z0-9._~!$'()*+,;=\-{more}"
    path = rf"([{plain}:@/&]|{_ESCAPED})*"
    host = rf"(\[({_IPV6})\]|([{plain}&]|{_ESCAPED})*)"
    authority = rf"//(([{plain}:&]|{_ESCAPED})*@)?{host}(:[0-9]{{0,5}})?(/{path})?"
    ends = rf"(\?([{plain}:@/?&]|{_ESCAPED})*)?(#([{plain}:@/?&]|{_ESCAPED})*)?"
    absolute = rf"[A-Za-z][A-Za-z0-9+.\-]*:({authority}|/?([{plain}:@&]|{_ESCAPED}){path}){ends}"
    segment = rf"([{plain}@&]|{_ESCAPED})+(/{path})?"
    relative = rf"({authority}|/(([{plain}:@&]|{_ESCAPED}){path})?|{segment})?{ends}"
    return absolute, f"({absolute})|({relative})"


_URI, _URI_REFERENCE = _spell_references("")
_IRI, _IRI_REFERENCE = _spell_references(_BEYOND)
_POINTER = "(/([^/~]|~[01])*)*"
_VARIABLE = r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*(\*|:[1-9][0-9]{0,3})?"


def _spell_url(schemes: str, user: str = "") -> str:
    """Writes URLs with a host, as WHATWG reads them: a port has 16 bits, and the last label of a
    name begins with a letter, since it would be an IPv4 address otherwise. A user, which models
    rarely mean and do not end, is only taken where `user` writes it."""
    plain = r"A-Za-z0-9._~!$'()*+,;=&:@/\-"
    rest = "(-?[A-Za-z0-9]){0,30}"
    host = rf"(([A-Za-z0-9]{rest}\.){{0,5}}[A-Za-z]{rest}|{_IPV4})"
    port = "(:([1-9][0-9]{0,3}|[1-5][0-9]{4}))?"
    path = f"(/([{plain}]|{_ESCAPED})*)?"
    ends = rf"(\?([{plain}?]|{_ESCAPED})*)?(#([{plain}?]|{_ESCAPED})*)?"
    return f"{schemes}://{user}{host}{port}{path}{ends}"


def _spell_base64(alphabet: str, *, text: bool) -> str:
    """Writes base 64 with padding; `text`: what is encoded is ASCII."""

    def pick(admits: Callable[[int], bool]) -> str:
        found = "".join(c for value, c in enumerate(alphabet) if admits(value))
        return f"[{found.replace('-', '')}{'-' if '-' in found else ''}]"  # last, it is no range

    # Three bytes are four characters of six bits. The first bit of an ASCII byte is 0.
    first = pick(lambda bits: not text or bits & 32 == 0)
    second = pick(lambda bits: not text or bits & 8 == 0)
    third = pick(lambda bits: not text or bits & 2 == 0)
    second_last, third_last = pick(lambda bits: bits & 15 == 0), pick(lambda bits: bits & 3 == 0)
    return (
        f"({first}{second}{third}{pick(lambda _: True)})*"
        f"({first}{second}{third_last}=|{first}{second_last}==)?"
    )


_WORD = "[A-Za-z0-9](-?[A-Za-z0-9]){0,20}"
_TOP = "([A-Za-z]{2,3}|info|name|tech|shop|site|online|example)"
_ALPHABET = f"{ascii_letters[26:]}{ascii_letters[:26]}{digits}"
_DECIMAL = r"[0-9]{1,15}(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?"
_USER = r"([A-Za-z0-9._~\-]{1,30}(:[A-Za-z0-9._~\-]{1,30})?@)?"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*"

FURTHER_FORMATS = {
    "time-local": _LOCAL_TIME,
    "date-time-local": f"{_DATE}[Tt]{_LOCAL_TIME}",
    "iso-time": f"{_LOCAL_TIME}{_OFFSET}?",
    "iso-date-time": f"{_DATE}[Tt]{_LOCAL_TIME}{_OFFSET}?",
    **{f"uuid{version}": _spell_uuids(str(version), "[89abAB]") for version in range(1, 9)},
    "ipv4interface": _INTERFACE4,
    "ipv6interface": _INTERFACE6,
    "ipvanyaddress": f"{_IPV4}|{_IPV6}",
    "ipvanyinterface": f"{_INTERFACE4}|{_INTERFACE6}",
    "ipv4network": _NETWORK4,
    "ipv6network": _NETWORK6,
    "ipvanynetwork": f"{_NETWORK4}|{_NETWORK6}",
    "email-address": rf"[{_IN_ATOM}]{{1,30}}(\.[{_IN_ATOM}]{{1,30}})?@({_WORD}\.){{1,4}}{_TOP}",
    "any-url": rf"({_spell_url(_SCHEME, _USER)}|(mailto|tel|urn):[A-Za-z0-9._~!$()*+,;=:@/\-]+)",
    "http-url": _spell_url("https?"),
    "ws-url": _spell_url("wss?"),
    "ftp-url": _spell_url("ftp", _USER),
    "base64": _spell_base64(f"{_ALPHABET}+/", text=False),
    "base64url": _spell_base64(rf"{_ALPHABET}-_", text=False),
    "base64-text": _spell_base64(f"{_ALPHABET}+/", text=True),
    "base64url-text": _spell_base64(rf"{_ALPHABET}-_", text=True),
    "fraction": "-?[0-9]{1,18}(/[1-9][0-9]{0,17})?",
    "python-complex": rf"-?{_DECIMAL}([+-]{_DECIMAL}j|j)?",
}
"""Formats that JSON Schema does not have, in Rust syntax that Python reads, too. The validator
asserts them, in every draft."""

FORMATS = {
    "date": _DATE,
    "time": f"{_LOCAL_TIME}{_OFFSET}",
    "date-time": f"{_DATE}[Tt]{_LOCAL_TIME}{_OFFSET}",
    "duration": f"P({_SPAN}W|{_DURATION_DATE}({_DURATION_TIME})?|{_DURATION_TIME})",
    "uuid": _spell_uuids("[0-9a-fA-F]", "[0-9a-fA-F]"),
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "hostname": f"{_spell_hosts(62, 4)}|{_spell_hosts(24, 10)}",
    "email": _spell_addresses(_IN_ATOM, _spell_hosts(24, 6)),
    "idn-email": _spell_addresses(_IN_ATOM + _BEYOND, _spell_hosts(10, 4, _LETTERS)),
    "uri": _URI,
    "uri-reference": _URI_REFERENCE,
    "iri": _IRI,
    "iri-reference": _IRI_REFERENCE,
    "uri-template": (
        rf"([A-Za-z0-9._~!$()*+,;=:@/?#&\[\]\-{_BEYOND}]|{_ESCAPED}"
        rf"|\{{[+#./;?&]?{_VARIABLE}(,{_VARIABLE})*\}})*"
    ),
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(0|[1-9][0-9]{{0,8}})(#|{_POINTER})",
    **FURTHER_FORMATS,
}
"""By name, in Rust syntax."""

_PLAIN_ADDRESS = (
    "no quoted local part, no more than 3 dots in it, with up to 15 characters between them; no "
    "address in brackets, no Punycode (xn--)"
)
NARROWED = {
    **dict.fromkeys(("time", "iso-time"), "no leap seconds"),
    **dict.fromkeys(("date", "date-time-local"), "no year 0"),
    **dict.fromkeys(("date-time", "iso-date-time"), "no year 0, no leap seconds"),
    "duration": "numbers of up to 6 digits, seconds of 9 where they are alone",
    **dict.fromkeys(("http-url", "ws-url"), "no user; hosts are names in ASCII, or IPv4"),
    **dict.fromkeys(("any-url", "ftp-url"), "hosts are names in ASCII, or IPv4"),
    "email-address": "hosts with a top-level domain of up to three letters, or a common one",
    **dict.fromkeys(("ipv6network", "ipvanynetwork"), "prefixes of whole groups"),
    "email": f"{_PLAIN_ADDRESS}; up to 6 labels of 24 characters",
    "idn-email": (
        f"{_PLAIN_ADDRESS}; up to 4 labels of 10 characters, letters of the commonest scripts"
    ),
    "hostname": "no Punycode (xn--); up to 4 labels of 62 characters, or 10 of 24",
    "iri": "no address of a future version in brackets, no private-use characters",
    "iri-reference": "no address of a future version in brackets, no private-use characters",
    **dict.fromkeys(("uri", "uri-reference"), "no address of a future version in brackets"),
    "uri-template": "no percent-encoded names of variables, no apostrophe",
}
"""By format, what its expression refuses although the format allows it."""

ASSERTED = frozenset(["idn-hostname", "regex"])
"""Formats that the mask does not enforce, but the validator checks; all others are annotations."""
