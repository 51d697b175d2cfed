"""The formats of JSON Schema as whole-string expressions (RFC 3339, 4122, 2673, 4291, 5321, 1123,
3986, 3987, 6570, 6901).

Each admits only what the format admits; but no e-mail addresses with quoted local parts or
addresses for hosts, no host names in Punycode (which must decode to something), and leap seconds
only where the offset is of whole or half hours.
"""

_LEAP = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DATE = (
    "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    f"|02-(0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_FRACTION = r"(\.[0-9]{1,18})?"


def _spell_leap_seconds() -> str:
    """Writes times with second 60 that are 23:59:60 in UTC."""
    options = [f"23:59:60{_FRACTION}[Zz]"]
    for sign in "+-":
        for offset in range(0, 24 * 60, 30):
            local = (24 * 60 - 1 + (offset if sign == "+" else -offset)) % (24 * 60)
            spelled = rf"\{sign}{offset // 60:02}:{offset % 60:02}"
            options.append(f"{local // 60:02}:{local % 60:02}:60{_FRACTION}{spelled}")
    return "|".join(options)


_TIME = (
    rf"(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]{_FRACTION}"
    rf"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])|{_spell_leap_seconds()})"
)
_DURATION_TIME = "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)"
_DURATION_DATE = "([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)"

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

FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}[Tt]{_TIME}",
    "duration": f"P([0-9]+W|{_DURATION_DATE}({_DURATION_TIME})?|{_DURATION_TIME})",
    "uuid": "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
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
}
"""By name, in Rust syntax."""

_PLAIN_ADDRESS = (
    "no quoted local part, no more than 3 dots in it, with up to 15 characters between them; no "
    "address in brackets, no Punycode (xn--)"
)
_LEAP_SECONDS = "leap seconds only where the offset is of whole or half hours"
NARROWED = {
    "time": _LEAP_SECONDS,
    "date-time": _LEAP_SECONDS,
    "email": f"{_PLAIN_ADDRESS}; up to 6 labels of 24 characters",
    "idn-email": (
        f"{_PLAIN_ADDRESS}; up to 4 labels of 10 characters, letters of the commonest scripts"
    ),
    "hostname": "no Punycode (xn--); up to 4 labels of 62 characters, or 10 of 24",
    "iri": "no address of a future version in brackets, no private-use characters",
    "iri-reference": "no address of a future version in brackets, no private-use characters",
    "uri": "no address of a future version in brackets",
    "uri-reference": "no address of a future version in brackets",
    "uri-template": "no percent-encoded names of variables, no apostrophe",
}
"""By format, what its expression refuses although the format allows it."""

ASSERTED = frozenset(["idn-hostname", "regex"])
"""Formats that the mask does not enforce, but the validator checks; all others are annotations."""
