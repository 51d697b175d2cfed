"""Text that agents change in every request becomes constant, and nothing else does."""

import re

from hypothesis import given
from hypothesis import strategies as st

from server.turns.stable_prompts import normalise_messages, normalise_text

BILLING = "x-anthropic-billing-header: cc_version=2.1.15.000; cc_entrypoint=cli; cch={};"
PATH = "/tmp/claude-settings-{}.json"
UUIDS = ("6f1b1a34-0d52-4a9e-8a0c-3d1f0b9b7a11", "FFFFFFFF-0d52-4a9e-8a0c-3d1f0b9b7a12")


def test_a_billing_line_keeps_all_but_its_hash() -> None:
    assert normalise_text(BILLING.format("8d4a1")) == (BILLING.format("00000"), 1)
    assert normalise_text("You help.\n" + BILLING.format("ff")) == (
        "You help.\n" + BILLING.format("00000"),
        1,
    )


def test_a_version_keeps_all_but_the_hash_of_the_conversation() -> None:
    line = "x-anthropic-billing-header: cc_version=2.1.197.{}; cc_entrypoint=sdk-cli;"
    for hash in ("f1c", "7ae", "840", "000"):
        text, changed = normalise_text(line.format(hash))
        assert text == line.format("000")
        assert changed == (hash != "000")
    assert normalise_text(line.format("f1c").replace("f1c", "1"))[1] == 0


def test_what_is_constant_already_is_not_counted() -> None:
    text = normalise_text(BILLING.format("8d4a1") + PATH.format(UUIDS[0]))[0]
    assert normalise_text(text) == (text, 0)


def test_paths_of_settings_are_the_same() -> None:
    texts = {normalise_text(f"Read {PATH.format(uuid)} and {PATH.format(uuid)}.") for uuid in UUIDS}
    ((text, changed),) = texts
    assert changed == 2
    assert re.fullmatch(r"Read (/tmp/claude-settings-[0-]{36}\.json) and \1\.", text)


def test_other_lines_stay() -> None:
    for text in (
        "cch=8d4a1;",
        "see x-anthropic-billing-header: cch=8d4a1;",
        "x-anthropic-billing-header: none\ncch=8d4a1;",
        "claude-settings-local.json",
        "claude-settings-6f1b1a34",
    ):
        assert normalise_text(text) == (text, 0)


@given(st.text(), st.text(alphabet="0123456789abcdef", min_size=1), st.text())
def test_the_text_around_it_stays(before: str, hash: str, after: str) -> None:
    line = "\n" + BILLING.format("{}") + "\n"
    if normalise_text(before)[1] or normalise_text(after)[1]:
        return
    text, _ = normalise_text(before + line.format(hash) + after)
    assert text == normalise_text(before)[0] + line.format("00000") + normalise_text(after)[0]


def test_only_messages_of_the_system_are_changed() -> None:
    text = BILLING.format("8d4a1")
    messages = [
        {"role": "system", "content": text},
        {"role": "developer", "content": [{"type": "text", "text": text}, "odd"]},
        {"role": "user", "content": text},
        {"role": "system", "content": None},
    ]
    settled, changed = normalise_messages(messages)
    constant = BILLING.format("00000")
    assert settled == [
        {"role": "system", "content": constant},
        {"role": "developer", "content": [{"type": "text", "text": constant}, "odd"]},
        {"role": "user", "content": text},
        {"role": "system", "content": None},
    ]
    assert changed == 2
    assert normalise_messages(messages, keep=True) == (messages, 0)
    assert messages[0]["content"] == text
