"""Writes the table of known chat templates that `constrained doctor` compares with.

    python -m tests.constrained.inspect.doctor.known_table

The templates are those of llama.cpp's own folder; the table has their names and digests alone.
"""

from importlib.metadata import version

from constrained.inspect.doctor.known_templates import TABLE, write_table
from examples.random_model import models_directory
from examples.random_model.sources import PACKAGE


def make_table() -> str:
    """Returns the table of the templates in llama.cpp's folder."""
    sources: dict[str, str] = {}
    for path in sorted((models_directory() / "templates").glob("*.jinja")):
        sources[path.stem] = path.read_text(encoding="utf-8")
    release = version(PACKAGE).partition("+")[0]
    return write_table(sources, f"llama.cpp's models/templates, in {PACKAGE} {release}")


def main() -> None:
    """Writes the table."""
    TABLE.write_text(make_table(), encoding="utf-8")


if __name__ == "__main__":
    main()
