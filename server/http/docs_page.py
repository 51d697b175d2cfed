"""The page at /docs: the OpenAPI document as HTML. FastAPI's own page needs scripts of a foreign
host, which an offline machine does not reach and a private one should not ask."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

Json = Mapping[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
summary { cursor: pointer; padding: .3rem 0; }
code { font-family: ui-monospace, monospace; }
table { border-collapse: collapse; margin: .5rem 0 1rem; }
td, th { border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent);
  padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
"""


def write_page(document: Json) -> str:
    """The page for an OpenAPI document. Nothing in it is loaded from elsewhere."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    operations = "\n".join(_write_operations(document))
    types = "\n".join(_write_types(document))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>For programs: <a href="openapi.json">openapi.json</a>.</p>
{operations}
<h2>Types</h2>
{types}
</body>
</html>
"""


def _write_operations(document: Json) -> Iterator[str]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield _write_operation(f"{method.upper()} {path}", item[method], document)


def _write_operation(name: str, operation: Json, document: Json) -> str:
    parts = [f"<details><summary><code>{escape(name)}</code></summary>"]
    parts.append(f"<p>{escape(operation.get('description', ''))}</p>")
    for content in operation.get("requestBody", {}).get("content", {}).values():
        parts.append(_write_fields(_resolve(content["schema"], document)))
    rows = [
        f"<tr><td>{escape(status)}</td><td>{escape(response.get('description', ''))}</td></tr>"
        for status, response in operation.get("responses", {}).items()
    ]
    parts.append(f"<table><tr><th>status</th><th></th></tr>{''.join(rows)}</table></details>")
    return "".join(parts)


def _write_types(document: Json) -> Iterator[str]:
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        head = f"<details><summary><code>{escape(name)}</code></summary>"
        description = f"<p>{escape(schema.get('description', ''))}</p>"
        yield f"{head}{description}{_write_fields(schema)}</details>"


def _write_fields(schema: Json) -> str:
    required = schema.get("required", ())
    rows: list[str] = []
    for name, field in schema.get("properties", {}).items():
        kind = escape(_name_type(field))
        note = "required" if name in required else ""
        rows.append(f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{note}</td></tr>")
    return f"<table><tr><th>field</th><th>type</th><th></th></tr>{''.join(rows)}</table>"


def _name_type(schema: Any) -> str:
    """The type of a field in words: `string or list of strings`."""
    match schema:
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
        case {"anyOf": [*branches]}:
            names = dict.fromkeys(_name_type(branch) for branch in branches)
            return " or ".join(name for name in names if name != "null")
        case {"enum": [*values]}:
            return " or ".join(map(repr, values))
        case {"type": "array", "items": items}:
            return f"list of {_name_type(items)}"
        case {"type": str(name)}:
            return name
        case _:
            return "anything"


def _resolve(schema: Json, document: Json) -> Json:
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rpartition("/")[2]
    return document["components"]["schemas"][name]
