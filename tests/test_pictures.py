"""The picture of the README: two real turns, drawn."""

from xml.etree import ElementTree

from benchmarks import pictures
from benchmarks.pictures import Written
from constrained import embedded, load

TOOLS = pictures.read_question(pictures.REQUEST)["tools"]
RIGHT = (
    '<tool_call>\n{"name": "cancel_reservation", "arguments": {"restaurant": "A"}}\n</tool_call>'
)


def test_the_picture_of_the_readme_shows_the_masked_turn_as_it_is_written_today() -> None:
    drawn = (pictures.IMAGES / "free_and_masked.svg").read_text("utf-8")
    shown = [text.strip() for text in ElementTree.fromstring(drawn).itertext() if text.strip()]
    question = pictures.read_question(pictures.REQUEST)
    with load(embedded.PATH, threads=1) as model:
        _, masked = pictures.write_both(model, question)
    assert masked.problem == ""
    assert set(masked.text.splitlines()) <= set(shown)
    assert "✗ not JSON: nothing can be called" in shown


def test_problems_of_turns() -> None:
    assert pictures.find_problem(RIGHT, TOOLS) == ""
    assert pictures.find_problem("Sorry!", TOOLS) == "no call"
    assert "not JSON" in pictures.find_problem(RIGHT.replace('"A"', '"A'), TOOLS)
    assert "no tool" in pictures.find_problem(RIGHT.replace("cancel_", "break_"), TOOLS)
    assert "do not fit" in pictures.find_problem(RIGHT.replace('"A"', "1"), TOOLS)


def test_any_text_can_be_drawn() -> None:
    lines = pictures.show_turn("<title> & more", Written(f'"</text>" {"x " * 100}', "", 1, 1))
    drawn = ElementTree.fromstring(pictures.draw(lines, '"quoted" & <marked>'))
    texts = [text for text in drawn.itertext() if text.strip()]
    assert "<title> & more" in texts
    assert all(len(text) <= pictures.COLUMNS for text in texts)
    assert drawn.get("aria-label") == '"quoted" & <marked>'
