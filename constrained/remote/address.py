"""Addresses of engines: `llama-server://host:port`, `vllm://...`, `sglang://...`."""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from constrained.errors import RequestError

SECURE = "+https"
EXAMPLE = "Write it as llama-server://127.0.0.1:8080"


class EngineKind(StrEnum):
    """The supported engines."""

    LLAMA_SERVER = "llama-server"
    VLLM = "vllm"
    SGLANG = "sglang"


DEFAULT_PORTS = {EngineKind.LLAMA_SERVER: 8080, EngineKind.VLLM: 8000, EngineKind.SGLANG: 30000}


@dataclass(frozen=True)
class Address:
    """The address of an engine; `url` has no slash at its end."""

    kind: EngineKind
    url: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.url}"


def is_address(source: object) -> bool:
    """Returns whether this is meant to be an address of an engine, not a file."""
    return isinstance(source, str) and "://" in source


def read_address(text: str) -> Address:
    """Reads an address. `+https` after the name of the engine selects TLS; a path in the address is
    a prefix of the engine's own paths."""
    scheme, _, rest = text.partition("://")
    name = scheme.removesuffix(SECURE)
    if name not in list(EngineKind):
        known = ", ".join(f"{kind}://" for kind in EngineKind)
        message = f"{text} is not an address of an engine: it begins with none of {known}"
        raise RequestError(message, hint=EXAMPLE)
    kind = EngineKind(name)
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port
    except ValueError as error:
        raise RequestError(
            f"{text} is not an address of an engine: {error}", hint=EXAMPLE
        ) from error
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        message = f"{text} is not an address of an engine: it is a host, a port and perhaps a path"
        raise RequestError(message, hint=EXAMPLE)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    protocol = "https" if scheme.endswith(SECURE) else "http"
    if port is None and protocol == "http":
        port = DEFAULT_PORTS[kind]
    authority = host if port is None else f"{host}:{port}"
    return Address(kind, f"{protocol}://{authority}{parts.path.rstrip('/')}")
