"""The page at /docs: the OpenAPI document as HTML. FastAPI's own page loads scripts from another
host, which fails offline and reveals requests."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
pre { overflow-x: auto; padding: .6rem;
  background: color-mix(in srgb, currentColor 8%, transparent); }
td, th { border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent);
  padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
"""


def write_page(document: Json) -> str:
    """Returns the HTML page for an OpenAPI document. It loads nothing from other hosts."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    operations = "\n".join(_write_operations(document))
    types = "\n".join(_write_types(document))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>For programs: <a href="openapi.json">openapi.json</a>.</p>
{_write_keys(document)}
{operations}
<h2>Types</h2>
{types}
</body>
</html>
"""


def _write_keys(document: Json) -> str:
    """Returns the paragraph on API keys: how to send one, and whether one is needed."""
    schemes = document.get("components", {}).get("securitySchemes", {})
    if not schemes:
        return ""
    need = "An API key is needed"
    if {} in document.get("security", ()):
        need = "No API key is needed"
    rows = [[_code(name), escape(scheme["description"])] for name, scheme in schemes.items()]
    return f"<p>{need}.</p>{_write_table(['key', ''], rows)}"


def _write_operations(document: Json) -> Iterator[str]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield _write_operation(f"{method.upper()} {path}", item[method], document)


def _write_operation(name: str, operation: Json, document: Json) -> str:
    parts = [f"<details><summary>{_code(name)}</summary>"]
    parts.append(f"<p>{escape(operation.get('description', ''))}</p>")
    if parameters := operation.get("parameters"):
        rows = [_describe_parameter(parameter) for parameter in parameters]
        parts.append(_write_table(["parameter", "type", "", ""], rows))
    for content in operation.get("requestBody", {}).get("content", {}).values():
        parts.append(_write_fields(_resolve(content["schema"], document)))
        for example in content.get("examples", {}).values():
            text = json.dumps(example["value"], indent=2, ensure_ascii=False)
            parts.append(f"<pre>{escape(text)}</pre>")
    rows = [_describe_reply(status, reply) for status, reply in operation["responses"].items()]
    parts.append(_write_table(["status", "", "body"], rows))
    return "".join([*parts, "</details>"])


def _describe_parameter(parameter: Json) -> list[str]:
    kind = escape(_name_type(parameter["schema"]))
    note = "required" if parameter.get("required") else ""
    description = escape(parameter.get("description", ""))
    return [_code(parameter["name"]), kind, note, description]


def _describe_reply(status: str, reply: Json) -> list[str]:
    media_types = " or ".join(map(_code, reply["content"]))
    return [escape(status), escape(reply["description"]), media_types]


def _write_types(document: Json) -> Iterator[str]:
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        head = f"<details><summary>{_code(name)}</summary>"
        description = f"<p>{escape(schema.get('description', ''))}</p>"
        yield f"{head}{description}{_write_fields(schema)}</details>"


def _write_fields(schema: Json) -> str:
    """Returns the fields of an object; for any other type, its name."""
    if "properties" not in schema:
        return f"<p>{escape(_name_type(schema))}</p>"
    required = schema.get("required", ())
    rows: list[list[str]] = []
    for name, field in schema["properties"].items():
        note = "required" if name in required else ""
        kind = escape(_name_type(field))
        rows.append([_code(name), kind, note, escape(field.get("description", ""))])
    return _write_table(["field", "type", "", ""], rows)


def _write_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; its cells are HTML."""
    lines = ["".join(f"<th>{head}</th>" for head in heads)]
    for row in rows:
        lines.append("".join(f"<td>{cell}</td>" for cell in row))
    inner = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>{inner}</table>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _name_type(schema: Any) -> str:
    """Returns the type of a field in words: `string or list of strings`."""
    match schema:
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
        case {"anyOf": [*branches]}:
            return " or ".join(dict.fromkeys(_name_type(branch) for branch in branches))
        case {"enum": [*values]}:
            return " or ".join(map(repr, values))
        case {"const": value}:
            return repr(value)
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
