"""Checks whether the vocabulary has tokens for the markers and ends that the template writes."""

import re
from collections.abc import Iterator, Mapping

from constrained.engine.header import Header
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import TemplateError
from constrained.inspect.doctor.conversations import SHAPES
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.verdicts import Level, Verdict
from constrained.prompt.turn_boundaries import find_text_ends

_TAG = re.compile(r"<[^<>\s]+>|\[/?[A-Z][A-Z_]+\]")
_SPECIAL = re.compile(r"<[|｜].*[|｜]>")  # names that only special tokens have
_NORMAL = 1  # a token type of GGUF
_FIX = "Convert the model again, with the tokenizer_config.json of its repository"


def check_tokens(subject: Subject) -> Iterator[Verdict]:
    if subject.template is None:
        return
    if isinstance(subject.header, Header):
        vocabulary = subject.header.vocabulary
        yield from _check_turns(subject, vocabulary)
        yield from _check_markers(subject, vocabulary)
        yield from _check_end(subject, vocabulary)
        yield from _check_beginning(subject, subject.header)
    elif subject.added_tokens is not None:
        yield from _check_added(subject, subject.added_tokens)


def list_turn_tags(subject: Subject) -> list[str]:
    """Lists the tags that the template writes around the turns of a plain conversation."""
    if subject.template is None:
        return []
    try:
        text = subject.template.render(SHAPES[0].messages)
    except TemplateError:
        return []
    return list(dict.fromkeys(_TAG.findall(text)))


def _check_turns(subject: Subject, vocabulary: Vocabulary) -> Iterator[Verdict]:
    """Checks whether the tags around turns are tokens: if none is, the template is that of another
    model."""
    tags = [tag for tag in list_turn_tags(subject) if _SPECIAL.fullmatch(tag)]
    unknown = [tag for tag in tags if vocabulary.marker(tag) is None]
    if not unknown:
        return
    listed = ", ".join(unknown)
    mistyped = _list_mistyped(subject, unknown)
    if mistyped:
        text = f"the vocabulary has {', '.join(mistyped)} as ordinary text, not as special tokens"
        yield Verdict(Level.FAILURE, text, _FIX, {"mistyped": mistyped})
        return
    level = Level.FAILURE if len(unknown) == len(tags) else Level.WARNING
    text = f"the template writes {listed} around turns, which the vocabulary does not have"
    remedy = "The template belongs to another model: name the right one (--chat-template-file)"
    yield Verdict(level, text, remedy, {"unknown": unknown})


def _list_mistyped(subject: Subject, texts: list[str]) -> list[str]:
    """Lists those of the texts that are tokens with the type of ordinary text."""
    contents = subject.contents
    if contents is None or len(contents.token_types) != len(contents.tokens):
        return []
    normal: set[str] = set()
    for text, kind in zip(contents.tokens, contents.token_types, strict=True):
        if kind == _NORMAL:
            normal.add(text)
    return [text for text in texts if text in normal]


def _check_markers(subject: Subject, vocabulary: Vocabulary) -> Iterator[Verdict]:
    """Checks whether the markers of calls and reasoning are one token each."""
    format = subject.selected.format
    markers = list(dict.fromkeys(format.markers))
    single = [text for text in markers if vocabulary.marker(text) is not None]
    if single:
        facts = {"tokens": {text: vocabulary.marker(text) for text in single}}
        yield Verdict(Level.OK, f"one token each: {', '.join(single)}", facts=facts)
    several = [text for text in markers if text not in single]
    mistyped = _list_mistyped(subject, several)
    if mistyped:
        yield Verdict(
            Level.WARNING,
            f"{', '.join(mistyped)}: one token each, but typed as ordinary text",
            _FIX + "; until then prompts do not have these tokens",
            {"mistyped": mistyped},
        )
    spelled = {text: len(vocabulary.encode(text)) for text in several if text not in mistyped}
    if spelled:
        listed = ", ".join(f"{text} ({count} tokens)" for text, count in spelled.items())
        yield Verdict(
            Level.NOTE,
            f"written as text, in several tokens: {listed}",
            "The grammar enforces them anyway; check that the file is of the model that the "
            "template is for",
            {"spelled": spelled},
        )


def _check_end(subject: Subject, vocabulary: Vocabulary) -> Iterator[Verdict]:
    if subject.template is None:
        return
    ends = find_text_ends(subject.template, subject.selected.format, vocabulary)
    names = [vocabulary.names.get(token, str(token)) for token in vocabulary.end]
    if not ends:
        text = f"turns end with a token that ends generation: {', '.join(names)}"
        yield Verdict(Level.OK, text, facts={"end": names})
        return
    written = ends[0].strip()
    yield Verdict(
        Level.WARNING,
        f"the template ends turns with {written!r}, which does not end generation "
        f"({', '.join(names)} do)",
        "Set tokenizer.ggml.eos_token_id (or eot_token_id) to it, if it is a token. This project "
        "stops at the text; other programs continue",
        {"written": written, "end": names},
    )


def _check_beginning(subject: Subject, header: Header) -> Iterator[Verdict]:
    """Checks for a BOS that both the tokenizer and the template add."""
    if subject.template is None or header.vocabulary.bos is None or not header.bos_text:
        return
    try:
        text = subject.template.render(SHAPES[0].messages[:1])
    except TemplateError:
        return
    if text.startswith(header.bos_text * 2):
        text = f"the template writes {header.bos_text} twice"
        yield Verdict(Level.WARNING, text, "Correct the template (--chat-template-file)")
    elif text.startswith(header.bos_text):
        yield Verdict(
            Level.NOTE,
            f"the template writes {header.bos_text}, and the tokenizer is set to add it, too "
            "(add_bos_token)",
            "This project writes it once; programs that render and tokenise apart write it twice",
        )


def _check_added(subject: Subject, added: Mapping[str, bool]) -> Iterator[Verdict]:
    tags = [tag for tag in list_turn_tags(subject) if _SPECIAL.fullmatch(tag)]
    tokens = (subject.bos_text, subject.eos_text)
    unknown = [tag for tag in tags if tag not in added and tag not in tokens]
    plain = [tag for tag in tags if added.get(tag) is False]
    if unknown:
        text = f"the template writes {', '.join(unknown)}, which are not among the added tokens"
        yield Verdict(Level.WARNING, text, "Take template and tokenizer from the same repository")
    if plain:
        text = f"{', '.join(plain)} are added, but not as special tokens"
        yield Verdict(
            Level.WARNING, text, "Mark them as special: otherwise users can write them as text"
        )
    if tags and not unknown and not plain:
        yield Verdict(Level.OK, f"special tokens: {', '.join(tags)}")
