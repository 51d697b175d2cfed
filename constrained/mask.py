"""The tokens that a grammar allows next: llguidance's matcher, with every failure an error.

llguidance reports nothing by itself: a matcher that has failed says that it has stopped and that
only an end token may follow, which looks like a clean end. So every call here asks for the error.
"""

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from decimal import Decimal
from itertools import takewhile
from typing import Any, NoReturn

import llguidance
import numpy as np
from llguidance.gbnf_to_lark import gbnf_to_lark

from constrained.errors import GrammarError
from grammars.lowering.keywords import MAX_REMAINDERS, is_light
from grammars.steps import check_wanted

# A mask takes as long as these let it: lexer fuel is some 10,000 an ms. Of items a row looks at all
# pairs, so many of them in a row cost more than all others. Verbose messages would carry the
# grammar and the text so far into logs. Grammars of ours: 2 million of fuel are what a bounded
# string may cost once, and an enum of n values is n items in a row.
OWN_LIMITS = llguidance.LLParserLimits(
    verbose_errors=False,
    step_lexer_fuel=2_000_000,
    max_items_in_row=20_000,
    step_max_items=500_000,
)
# Grammars of users may be ambiguous: each text then has more items the longer it is. So may their
# expressions be, which have more states; one takes 1 to 2 kB.
USER_LIMITS = llguidance.LLParserLimits(
    verbose_errors=False,
    step_lexer_fuel=2_000_000,
    max_lexer_states=100_000,
    max_items_in_row=500,
    step_max_items=20_000,
)
_LIMIT_MET = re.compile("Too many items|Current row has|too many (states|expressions)")
_DEAD_END = re.compile("NoExtension")
_LIMIT_HINT = (
    "Ask for something simpler: shorter bounds, no repeated choice of texts that begin alike, no "
    "rule that reads a text in several ways; many alternatives as one regular expression"
)
# llguidance compiles rules that refer to each other by recursion. An object of 2,500 properties
# would overrun a stack of 8 MB and thereby end the process; with this one, MAX_RULES fit.
STACK = 256 * 2**20  # bytes, of address space only
# Its time grows with the square of these: 2 s and 3 s. It numbers its symbols in 16 bits.
MAX_RULES = 20_000
MAX_BRANCHES = 40_000
_SYMBOLS = re.compile(r'"(?:[^"\\\n]|\\.)*+"|//[^\n]*|/(?:[^/\\\n]|\\.)++/|\||%json\s*+')
"""Texts, comments, expressions; elsewhere what separates alternatives, and what opens a schema."""
MAX_GBNF = 30_000_000  # rules times characters: 3 s
REGEX_INDENT = 4  # characters in front of an expression in an error of Rust's parser
AT_ONCE = 4  # grammars that llguidance compiles
PATIENCE = 0.02  # seconds between two looks at whether a grammar is still wanted
# llguidance tells nobody what its lexer has learnt, and lets nobody forget it. What it takes was
# measured (`benchmarks.learning`): some 100 to 2,000 bytes for a mask of known states; where it
# makes new ones, up to 200 kB for each ms. A grammar by itself has 50 to 60 bytes a character.
COMPILED_BYTES, CHARACTER_BYTES = 200_000, 60
MASK_BYTES, SECOND_BYTES = 2_000, 200_000_000
KNOWN_STATES = 0.0005  # seconds; a mask that takes longer makes new ones, also on a busy machine
HEADER = "%llguidance {}\n"
_stack_size = threading.Lock()
_room = threading.BoundedSemaphore(AT_ONCE)
# For each byte of a packed mask, what to add to the logits of its 8 tokens.
BIAS = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    np.float32(0),
    np.float32(-np.inf),
)


def find_regex_fault(regex: str) -> tuple[str, int] | None:
    """What is wrong with a regular expression, and at which character, from 0; None if nothing is
    by the rules of Rust's parser, or if that does not tell (the expression has several lines)."""
    # A slash would end the expression in Lark; another character of no meaning stands for it.
    grammar = llguidance.grammar_from("lark", f"start: /{regex.replace('/', 'x')}/")
    said = llguidance.LLMatcher.validate_grammar(grammar).splitlines()
    if len(said) < 4 or not said[0].endswith("regex parse error:"):
        return None
    _, _, carets, cause, *_ = said
    if not cause.startswith("error: "):
        return None
    return cause.removeprefix("error: "), carets.index("^") - REGEX_INDENT


class _Learnt:
    """What llguidance holds for a grammar and all forks of it, about."""

    def __init__(self, bytes: int):
        self.bytes = bytes

    def note_mask(self, seconds: float) -> None:
        """A mask has taken so long. Two threads may note at once: one of them is lost at worst."""
        self.bytes += MASK_BYTES
        if seconds > KNOWN_STATES:
            self.bytes += int(seconds * SECOND_BYTES)


class Matcher:
    """A grammar, and the state of a turn in it. Not for two threads at once.

    Every method raises GrammarError if llguidance fails, and from then on.
    """

    def __init__(
        self,
        tokenizer: llguidance.LLTokenizer,
        inner: llguidance.LLMatcher,
        learnt: _Learnt,
        where: str | None = None,
        is_own: bool = True,
    ):
        self._tokenizer = tokenizer
        self._where = where
        self._is_own = is_own
        self._learnt = learnt
        self._inner = inner
        self._n_vocab = tokenizer.vocab_size
        self._ends = frozenset(tokenizer.eos_tokens)
        self._packed: np.ndarray | None = None  # the mask, until the next commit
        self._only: int | None = None  # the token that it leaves, if it leaves no other

    @classmethod
    def compile(
        cls,
        tokenizer: llguidance.LLTokenizer,
        grammar: str,
        *,
        is_own: bool = True,
        where: str | None = None,
    ) -> "Matcher":
        """Compiles a grammar in llguidance's Lark dialect (5 to 60 ms); keep it, and fork it.

        The forks share its lexer and thereby what it has learnt, but also its limit of states: a
        fork that runs into it takes all others with it. Compile anew then.

        Args:
            tokenizer: of the vocabulary.
            grammar: as text.
            is_own: it is one of ours; one of a user's may be ambiguous, and has less room.
            where: JSON pointer to where the request asks for it, for the error of a mask that is
                too costly.

        Raises:
            GrammarError: the grammar is not valid, or nothing fits it.
        """
        _check_size(grammar.count("\n"), MAX_RULES, "rules")
        if is_own:
            _check_size(grammar.count(" | "), MAX_BRANCHES, "branches")
        else:
            _check_user_grammar(grammar)
        limits = OWN_LIMITS if is_own else USER_LIMITS
        learnt = _Learnt(COMPILED_BYTES + CHARACTER_BYTES * len(grammar))
        inner = _compile(tokenizer, grammar, limits)
        matcher = cls(tokenizer, inner, learnt, where, is_own=is_own)
        matcher._check("the grammar is not valid")
        matcher.prepare()  # also finds a grammar that nothing fits
        return matcher

    def fork(self) -> "Matcher":
        """Returns an independent matcher in the same state, in microseconds."""
        inner = self._inner.deep_copy()
        fork = Matcher(self._tokenizer, inner, self._learnt, self._where, is_own=self._is_own)
        fork._packed, fork._only = self._packed, self._only
        return fork

    def measure(self) -> int:
        """The bytes that its grammar takes, with what its lexer has learnt in all forks; about."""
        return self._learnt.bytes

    @property
    def warnings(self) -> list[str]:
        """llguidance's warnings about a grammar that it accepts."""
        return self._inner.get_grammar_warnings()

    def prepare(self) -> None:
        """Computes the mask of the next token, for `mask` and `apply`.

        It lets go of the interpreter lock, so it can run in a thread while the model decodes.
        """
        if self._packed is None:
            began = time.thread_time()
            packed = np.frombuffer(self._inner.compute_bitmask(), dtype=np.uint8)
            self._learnt.note_mask(time.thread_time() - began)
            self._check("the grammar failed")
            packed = self._without_early_ends(packed)
            self._only = _find_only(packed)
            self._packed = packed

    def _without_early_ends(self, packed: np.ndarray) -> np.ndarray:
        """The mask without tokens that end the turn, where it may not end: a grammar of a user can
        name them, as any other special token."""
        named = [token for token in self._ends if packed[token // 8] >> token % 8 & 1]
        if not named or self.is_complete:
            return packed
        left = packed.copy()
        for token in named:
            left[token // 8] &= ~np.uint8(1 << token % 8)
        if not left.any():
            message = f"the grammar goes on behind token {named[0]}, which ends the turn"
            hint = "Leave it out: a turn ends where its grammar ends"
            raise GrammarError(message, where=self._where, hint=hint)
        return left

    def mask(self) -> np.ndarray:
        """Returns which tokens may come next: booleans, one for each token of the vocabulary."""
        bits = np.unpackbits(self._bits(), count=self._n_vocab, bitorder="little")
        return bits.view(np.bool_)

    def apply(self, logits: np.ndarray) -> int | None:
        """Sets the logits of all forbidden tokens to -inf, in place (30 us for 152,000).

        Args:
            logits: float32, one for each token of the vocabulary.

        Returns:
            The token, if only one is allowed: the caller need not sample.
        """
        packed = self._bits()
        # A table of 256 rows in place of unpacking bits: one pass, and no array of booleans.
        logits += BIAS.take(packed, axis=0).reshape(-1)[: self._n_vocab]
        return self.find_only()

    def find_only(self) -> int | None:
        """The token that has to come next, if the mask leaves no other."""
        self.prepare()
        return self._only

    def allows(self, token: int) -> bool:
        """Returns whether a token of the vocabulary may come next."""
        return bool(self._bits()[token // 8] >> token % 8 & 1)

    def commit(self, token: int) -> None:
        """Consumes a token, which may be an end token where the turn may end.

        Raises:
            GrammarError: the token is not allowed here.
        """
        self._check("the grammar failed")
        if not 0 <= token < self._n_vocab or (self.ends(token) and not self.is_complete):
            self._fail(f"token {token} is not allowed here")
        self._inner.consume_token(token)
        self._packed = None
        self._check(f"token {token} is not allowed here")

    def forced(self) -> list[int]:
        """Returns the tokens that must come next, if any (fast-forward tokens). The caller commits
        them.

        llguidance leaves out the last ones where a longer token could still change how the text is
        cut; `forced_text` has all of it.
        """
        tokens = self._inner.compute_ff_tokens()
        self._check("the grammar failed")
        if self._ends.isdisjoint(tokens):
            return tokens
        return [*takewhile(lambda token: not self.ends(token), tokens)]  # the mask looks at ends

    def forced_text(self) -> bytes:
        """Returns the bytes that must come next, if any; in which tokens, may be open."""
        text = self._inner.compute_ff_bytes()
        self._check("the grammar failed")
        return text

    def accepts(self, tokens: Sequence[int]) -> int:
        """Returns how many of `tokens` could be committed from here, in order."""
        known = list[int]()
        for token in tokens:
            # To ask llguidance about an id that it does not have would put it into its error state.
            if not 0 <= token < self._n_vocab:
                break
            known.append(token)
        count = self._inner.validate_tokens(known)
        self._check("the grammar failed")
        return count

    def takes(self, tokens: Sequence[int]) -> bool:
        """Commits tokens; returns whether all of them were allowed, in order. Where one was not,
        the matcher is of no more use.

        Raises:
            GrammarError: the grammar failed.
        """
        # To ask llguidance first what it accepts would have it do all the work twice.
        for token in tokens:
            is_possible = 0 <= token < self._n_vocab and (not self.ends(token) or self.is_complete)
            if not is_possible or not self._inner.consume_token(token):
                if _LIMIT_MET.search(self._inner.get_error()):
                    self._check("the grammar failed")
                return False
            self._packed = None
        return True

    @property
    def end_tokens(self) -> frozenset[int]:
        """The tokens that end the turn."""
        return self._ends

    def ends(self, token: int) -> bool:
        """Returns whether `token` ends the turn."""
        return token in self._ends

    @property
    def is_complete(self) -> bool:
        """True if the turn may end here."""
        complete = self._inner.is_accepting()
        self._check("the grammar failed")
        return complete

    @property
    def is_finished(self) -> bool:
        """True if nothing but the end of the turn can follow."""
        # A matcher that has failed says so, too.
        self._check("the grammar failed")
        return self._inner.is_stopped()

    def _bits(self) -> np.ndarray:
        self.prepare()
        assert self._packed is not None
        return self._packed

    def _check(self, what: str) -> None:
        if self._inner.is_error():
            self._fail(what)

    def _fail(self, what: str) -> NoReturn:
        # Only the first line: the others show the grammar, and with it the user's data.
        cause = self._inner.get_error().strip().partition("\n")[0]
        if _LIMIT_MET.search(cause):
            message = f"a mask of this grammar is too costly: {cause}"
            raise GrammarError(message, where=self._where, hint=_LIMIT_HINT)
        if _DEAD_END.search(cause):
            cause = f"nothing can follow here, and the text may not end ({cause})"
        where = None if self._is_own else self._where  # of ours, the client is not to blame
        raise GrammarError(f"{what}: {cause}" if cause else what, where=where)


def _find_only(packed: np.ndarray) -> int | None:
    """The token of a mask that has a single one."""
    if np.count_nonzero(packed) != 1:
        return None
    at = int(packed.argmax())
    byte = int(packed[at])
    if byte.bit_count() != 1:
        return None
    return at * 8 + byte.bit_length() - 1


def _check_size(count: int, limit: int, what: str) -> None:
    if count > limit:
        message = f"the grammar has {count:,} {what}, the limit is {limit:,}"
        raise GrammarError(message, hint="Offer fewer tools, or simpler schemas")


def _check_user_grammar(grammar: str) -> None:
    """Refuses what llguidance takes long for in a grammar of a user: many alternatives, however
    they are written, and multiples of large numbers in an embedded schema.

    Raises:
        GrammarError: there is something of the kind.
    """
    branches = 0
    for found in _SYMBOLS.finditer(grammar):
        branches += found[0] == "|"
        if branches > MAX_BRANCHES:
            break
        if found[0].startswith("%json"):
            _check_divisors(grammar, found.end())
    _check_size(branches, MAX_BRANCHES, "branches")


def _check_divisors(grammar: str, begin: int) -> None:
    """Refuses an embedded schema where telling multiples takes too many states: one for each
    remainder, and conjunctions multiply them."""
    try:
        schema, _ = json.JSONDecoder().raw_decode(grammar, begin)
    except (ValueError, RecursionError):
        return  # llguidance says what is wrong
    states = 1
    for divisor in {*_find_divisors(schema)}:
        if not is_light(divisor):
            states = MAX_REMAINDERS + 1
            break
        digits = Decimal(repr(divisor)).normalize().as_tuple().digits
        states *= int("".join(map(str, digits)))
    if states > MAX_REMAINDERS:
        message = "the values of multipleOf in its %json have too many digits together"
        raise GrammarError(message, hint="Use smaller ones, or response_format with the schema")


def _find_divisors(schema: Any) -> Iterator[float]:
    waiting = [schema]
    while waiting:
        match waiting.pop():
            case dict() as members:
                divisor = members.get("multipleOf")
                if isinstance(divisor, (int, float)) and divisor > 0:
                    yield divisor
                waiting.extend(members.values())
            case list() as items:
                waiting.extend(items)
            case _:
                pass


def read_gbnf(grammar: str) -> str:
    """A grammar of llama.cpp (GBNF) in llguidance's Lark dialect.

    Raises:
        GrammarError: it is not valid, or too large to be read.
    """
    # llguidance's reader looks for terminals among all rules again each time it has found some.
    steps = grammar.count("::=") * len(grammar)
    if steps > MAX_GBNF:
        message = f"the grammar is too large: {grammar.count('::='):,} rules"
        raise GrammarError(message, where="/grammar", hint="Write it in Lark, or simplify it")
    try:
        return gbnf_to_lark(grammar).replace(HEADER, "")
    except Exception as e:  # a bare one where a rule is missing
        message = f"the GBNF grammar is not valid: {e}"
        raise GrammarError(message, where="/grammar", hint="Correct it") from e


def _compile(
    tokenizer: llguidance.LLTokenizer, grammar: str, limits: llguidance.LLParserLimits
) -> llguidance.LLMatcher:
    """Compiles in a thread with a large stack: its size is the only one that Python can choose.

    Nothing interrupts llguidance, but a grammar within the limits takes it seconds at most, and it
    lets go of the interpreter lock. So whoever is not wanted any more leaves it to itself; those
    that are left so are counted, and no more begin than there is room for.
    """
    while not _room.acquire(timeout=PATIENCE):
        check_wanted()
    pool = ThreadPoolExecutor(1, thread_name_prefix="grammar")
    with _stack_size:
        before = threading.stack_size(STACK)
        try:
            made = pool.submit(llguidance.LLMatcher, tokenizer, grammar, log_level=0, limits=limits)
        finally:
            threading.stack_size(before)
    made.add_done_callback(lambda _: _room.release())
    pool.shutdown(wait=False)
    while not wait([made], timeout=PATIENCE).done:
        check_wanted()
    return made.result()
