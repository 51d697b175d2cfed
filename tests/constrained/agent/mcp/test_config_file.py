"""`mcp.json`, of Claude Desktop and of VS Code."""

import json
from pathlib import Path
from typing import Any

import pytest

from constrained.agent.mcp.server import ServerAddress, ServerCommand
from constrained.agent.mcp.sources import read_sources
from constrained.errors import RequestError

CLAUDE = {
    "mcpServers": {
        "files": {
            "command": "npx",
            "args": ["-y", "server", "${FOLDER}", 8080],
            "env": {"KEY": "${KEY:-none}", "EMPTY": ""},
            "autoApprove": ["read"],
        },
        "off": {"command": "x", "disabled": True},
    }
}
CODE = {
    "inputs": [
        {"id": "api-key", "type": "promptString", "password": True},
        {"id": "region", "type": "promptString", "default": "eu"},
    ],
    "servers": {
        "web": {
            "type": "http",
            "url": "https://${input:region}.example.com/mcp",
            "headers": {"Authorization": "Bearer ${input:api-key}"},
        },
        "local": {"type": "stdio", "command": "run", "cwd": "${env:FOLDER}"},
    },
}


def test_claude_desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", "/data")
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(CLAUDE))
    read = read_sources([str(path)])
    environment = {"KEY": "none", "EMPTY": ""}
    command = ServerCommand("npx", ("-y", "server", "/data", "8080"), environment, name="files")
    assert read.servers == (command,)
    assert read.notes == (
        f"{path}: /mcpServers/files/autoApprove is ignored",
        f"{path}: the server 'off' is disabled",
    )
    assert read_sources([path]).servers == read.servers


def test_vs_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", "/data")
    monkeypatch.setenv("API_KEY", "secret")
    web, local = read_sources([CODE]).servers
    headers = {"Authorization": "Bearer secret"}
    assert web == ServerAddress("https://eu.example.com/mcp", headers, "web")
    assert local == ServerCommand("run", cwd="/data", name="local")
    assert "secret" not in repr(web)


def server(**fields: Any) -> dict[str, Any]:
    return {"mcpServers": {"a/b": fields}}


@pytest.mark.parametrize(
    ("document", "where", "message"),
    [
        ({}, "", "it must have `mcpServers`"),
        ({"mcpServers": {}, "servers": {}}, "", "it must have `mcpServers`"),
        ({"mcpServers": []}, "/mcpServers", "by their names"),
        (server(), "/mcpServers/a~1b/command", "it must be a text"),
        (server(command=""), "/mcpServers/a~1b/command", "it is empty"),
        (server(command="x", args="y"), "/mcpServers/a~1b/args", "must be a list"),
        (server(command="x", args=[None]), "/mcpServers/a~1b/args/0", "it must be a text"),
        (server(command="x", env={"A": None}), "/mcpServers/a~1b/env/A", "it must be a text"),
        (server(command="x", envFile=".env"), "/mcpServers/a~1b/envFile", "is not supported"),
        (server(command="x", sandbox=True), "/mcpServers/a~1b/sandbox", "is not supported"),
        (server(type="ws", url="http://x"), "/mcpServers/a~1b/type", "nor sse"),
        (server(type="grpc"), "/mcpServers/a~1b/type", "neither stdio nor http"),
        (server(url="ftp://x"), "/mcpServers/a~1b/url", "is no http:// or https://"),
        (server(command="${NOT_THERE}"), "/mcpServers/a~1b/command", "NOT_THERE is not set"),
        (server(command="${a:b}"), "/mcpServers/a~1b/command", "${a:b} is not known"),
        (server(command="x", args=["${A:-${B}}"]), "/mcpServers/a~1b/args/0", "begin a variable"),
        (server(command="${input:x}"), "/mcpServers/a~1b/command", "no input 'x'"),
        (server(cwd="${workspaceFolder}", command="x"), "/mcpServers/a~1b/cwd", "VS Code alone"),
        (CODE, "/servers/web/headers/Authorization", "nobody is asked for the input 'api-key'"),
    ],
)
def test_mistakes(document: Any, where: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("API_KEY", raising=False)
    with pytest.raises(RequestError) as raised:
        read_sources([document])
    assert raised.value.where == where
    assert message in raised.value.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"none\.json: No such file"):
        read_sources(["none.json"])
    commented = tmp_path / "commented.json"
    commented.write_text('{\n// VS Code\n"servers": {}}')
    with pytest.raises(RequestError, match=r"is not JSON: .* line 2 column 1"):
        read_sources([commented])


def test_commands_and_addresses() -> None:
    read = read_sources(["npx -y 'a b'", "f=uvx fetch --x=y", "http://h/mcp?a=b", "w=https://h"])
    assert read.servers == (
        ServerCommand("npx", ("-y", "a b")),
        ServerCommand("uvx", ("fetch", "--x=y"), name="f"),
        ServerAddress("http://h/mcp?a=b"),
        ServerAddress("https://h", name="w"),
    )


@pytest.mark.parametrize("sources", [[], [""], ["a 'b"], [3], [{"mcpServers": {}}]])
def test_no_servers(sources: Any) -> None:
    with pytest.raises(RequestError):
        read_sources(sources)
