"""Token masks: a grammar compiled with llguidance, which decides which tokens may come next.

llguidance does not raise errors: a matcher that has failed reports that it has stopped and that
only an end token may follow, which looks like a clean end. So every method here checks for an error
and raises it.
"""

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import takewhile
from math import inf, prod
from typing import Any, NoReturn

import llguidance
import numpy as np
from llguidance.gbnf_to_lark import gbnf_to_lark

from constrained.errors import GrammarError
from grammars.lowering.keywords import MAX_REMAINDERS
from grammars.steps import check_wanted

# These limit the time of a mask: 10,000 units of lexer fuel take about 1 ms, and the time of a row
# of Earley items grows with the square of their number. A bounded string may need 2 million units
# once, and an enum of n values has n items in a row. Verbose errors would put the grammar and the
# user's text into logs.
OWN_LIMITS = llguidance.LLParserLimits(
    verbose_errors=False,
    step_lexer_fuel=2_000_000,
    max_items_in_row=20_000,
    step_max_items=500_000,
)
# Users' grammars may be ambiguous, so the number of items may grow with the text. Their regular
# expressions may have many lexer states, of 1 to 2 kB each.
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
# llguidance compiles rules recursively. With a stack of 8 MB, an object of 2,500 properties would
# overflow it and end the process. With this one, MAX_RULES fit.
STACK = 256 * 2**20  # bytes of address space
# The time to compile grows with the square of these: up to 2 s and 3 s. llguidance numbers its
# symbols in 16 bits.
MAX_RULES = 20_000
MAX_BRANCHES = 40_000
_SYMBOLS = re.compile(r'"(?:[^"\\\n]|\\.)*+"|//[^\n]*|/(?:[^/\\\n]|\\.)++/|\||%json\s*+')
"""Lark strings, comments and regular expressions, or else `|` and `%json`."""
MAX_GBNF = 30_000_000  # rules times characters: 3 s
REGEX_INDENT = 4  # characters before the expression in error messages of Rust's parser
AT_ONCE = 4  # grammars that are compiled at the same time
PATIENCE = 0.02  # seconds between two checks whether a grammar is still needed
# The lexer of llguidance caches states; it neither reports their size nor frees them. Measured with
# `benchmarks.learning`: a mask of known states takes 100 to 2,000 bytes, one with new states up to
# 200 kB for each ms. The grammar itself takes 50 to 60 bytes a character.
COMPILED_BYTES, CHARACTER_BYTES = 200_000, 60
MASK_BYTES, SECOND_BYTES = 2_000, 200_000_000
KNOWN_STATES = 0.0005  # seconds; a mask that takes longer has made new states
HEADER = "%llguidance {}\n"
_stack_size = threading.Lock()
_room = threading.BoundedSemaphore(AT_ONCE)
# For each byte of a packed mask, the numbers to add to the logits of its 8 tokens.
BIAS = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    np.float32(0),
    np.float32(-np.inf),
)


def find_regex_fault(regex: str) -> tuple[str, int] | None:
    """Returns the error of a regular expression and the index of its character, from 0.

    None: Rust's parser finds no error, or does not report its position (the expression has several
    lines).
    """
    # A slash would end the expression in Lark; "x" has no special meaning either.
    grammar = llguidance.grammar_from("lark", f"start: /{regex.replace('/', 'x')}/")
    said = llguidance.LLMatcher.validate_grammar(grammar).splitlines()
    if len(said) < 4 or not said[0].endswith("regex parse error:"):
        return None
    _, _, carets, cause, *_ = said
    if not cause.startswith("error: "):
        return None
    return cause.removeprefix("error: "), carets.index("^") - REGEX_INDENT


class _Learnt:
    """An estimate of the memory that llguidance uses for a grammar and all its forks, in bytes."""

    def __init__(self, bytes: int):
        self.bytes = bytes

    def note_mask(self, seconds: float) -> None:
        """Adds a mask that took this many seconds. Not locked: two threads may lose one note."""
        self.bytes += MASK_BYTES
        if seconds > KNOWN_STATES:
            self.bytes += int(seconds * SECOND_BYTES)


class Matcher:
    """A compiled grammar, and the state of one turn in it. Not thread-safe.

    If llguidance fails, the method raises GrammarError, and so does every later one.
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
        self._only: int | None = None  # the only token that the mask allows, if it is one

    @classmethod
    def compile(
        cls,
        tokenizer: llguidance.LLTokenizer,
        grammar: str,
        *,
        is_own: bool = True,
        where: str | None = None,
    ) -> "Matcher":
        """Compiles a grammar in llguidance's Lark dialect (5 to 60 ms). Keep it, and fork it.

        Forks share the lexer with its cached states, and also its limit of states: if one fork
        exceeds it, all of them fail. Then the grammar has to be compiled again.

        Args:
            tokenizer: of the vocabulary.
            grammar: the grammar as text.
            is_own: the grammar is generated by this library; a user's one may be ambiguous, and
                has lower limits.
            where: JSON pointer to the part of the request that asks for the grammar, for errors.

        Raises:
            GrammarError: the grammar is not valid, or no text fits it.
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
        matcher.prepare()  # raises an error if no text fits the grammar
        return matcher

    def fork(self) -> "Matcher":
        """Returns an independent matcher in the same state, in microseconds."""
        inner = self._inner.deep_copy()
        fork = Matcher(self._tokenizer, inner, self._learnt, self._where, is_own=self._is_own)
        fork._packed, fork._only = self._packed, self._only
        return fork

    def measure(self) -> int:
        """Estimates the memory of the grammar and all its forks, in bytes."""
        return self._learnt.bytes

    @property
    def warnings(self) -> list[str]:
        """llguidance's warnings about a grammar that it accepts."""
        return self._inner.get_grammar_warnings()

    def prepare(self) -> None:
        """Computes the mask of the next token, for `mask` and `apply`.

        It releases the interpreter lock, so it can run in a thread while the model decodes.
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
        """Returns the mask without end tokens, unless the turn may end here. A user's grammar may
        name end tokens, as any other special token."""
        named = [token for token in self._ends if packed[token // 8] >> token % 8 & 1]
        if not named or self.is_complete:
            return packed
        left = packed.copy()
        for token in named:
            left[token // 8] &= ~np.uint8(1 << token % 8)
        if not left.any():
            message = f"the grammar continues after token {named[0]}, which ends the turn"
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
        # A table of 256 rows is faster than unpacking the bits into booleans.
        logits += BIAS.take(packed, axis=0).reshape(-1)[: self._n_vocab]
        return self.find_only()

    def find_only(self) -> int | None:
        """Returns the only token that the mask allows; None if it allows several."""
        self.prepare()
        return self._only

    def allows(self, token: int) -> bool:
        """Returns whether a token of the vocabulary may come next."""
        return bool(self._bits()[token // 8] >> token % 8 & 1)

    def commit(self, token: int) -> None:
        """Consumes a token. End tokens are allowed if the turn may end here.

        Raises:
            GrammarError: the token is not allowed here.
        """
        if not 0 <= token < self._n_vocab or (self.ends(token) and not self.is_complete):
            self._fail(f"token {token} is not allowed here")
        self._packed = None
        if not self._inner.consume_token(token):  # false, too, if it has failed before
            self._fail(f"token {token} is not allowed here")

    def forced(self) -> list[int]:
        """Returns the tokens that the grammar forces next (fast-forward tokens). The caller has to
        commit them.

        The last tokens of a forced text are left out if a longer token could still change how the
        text is cut; `forced_text` returns all of it.
        """
        tokens = self._inner.compute_ff_tokens()
        if not tokens:  # so it is, too, if the matcher has failed
            self._check("the grammar failed")
            return tokens
        if self._ends.isdisjoint(tokens):
            return tokens
        return [*takewhile(lambda token: not self.ends(token), tokens)]  # `_without_early_ends`

    def forced_text(self) -> bytes:
        """Returns the bytes that the grammar forces next. They may be cut into tokens in several
        ways."""
        text = self._inner.compute_ff_bytes()
        self._check("the grammar failed")
        return text

    def accepts(self, tokens: Sequence[int]) -> int:
        """Returns how many of `tokens` could be committed from here, in order."""
        known = list[int]()
        for token in tokens:
            # An id that does not exist would put llguidance into its error state.
            if not 0 <= token < self._n_vocab:
                break
            known.append(token)
        count = self._inner.validate_tokens(known)
        self._check("the grammar failed")
        return count

    def takes(self, tokens: Sequence[int]) -> bool:
        """Commits tokens, and returns whether all were allowed. If not, the matcher is unusable.

        Raises:
            GrammarError: the grammar failed.
        """
        # `accepts` before `commit` would do the work twice.
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
        """True if only the end of the turn can follow."""
        if not self._inner.is_stopped():
            return False
        self._check("the grammar failed")  # a failed matcher also says that it has stopped
        return True

    def _bits(self) -> np.ndarray:
        self.prepare()
        assert self._packed is not None
        return self._packed

    def _check(self, what: str) -> None:
        if self._inner.is_error():
            self._fail(what)

    def _fail(self, what: str) -> NoReturn:
        # Only the first line: the others contain the grammar, and with it the user's data.
        cause = self._inner.get_error().strip().partition("\n")[0]
        if _LIMIT_MET.search(cause):
            message = f"a mask of this grammar is too costly: {cause}"
            raise GrammarError(message, where=self._where, hint=_LIMIT_HINT)
        if _DEAD_END.search(cause):
            cause = f"nothing can follow here, and the text may not end ({cause})"
        where = None if self._is_own else self._where  # our own grammars are not the client's fault
        raise GrammarError(f"{what}: {cause}" if cause else what, where=where)


def _find_only(packed: np.ndarray) -> int | None:
    """Returns the only token that a packed mask allows; None if it allows several."""
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
    """Refuses a user's grammar that llguidance would take too long for.

    Raises:
        GrammarError: it has too many alternatives, or `multipleOf` in an embedded schema has too
            many digits.
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
    """Refuses an embedded schema whose `multipleOf` needs too many states: one for each remainder,
    and conjunctions multiply them."""
    try:
        schema, _ = json.JSONDecoder().raw_decode(grammar, begin)
    except (ValueError, RecursionError):
        return  # llguidance reports the error
    states = prod(map(_count_remainders, {*_find_divisors(schema)}))
    if states > MAX_REMAINDERS:
        message = "the values of multipleOf in its %json have too many digits together"
        raise GrammarError(message, hint="Use smaller ones, or response_format with the schema")


def _count_remainders(divisor: float) -> float:
    """Returns the divisor without its decimal point; infinity if it is too large, or has more
    places than llguidance reads exactly."""
    if divisor > MAX_REMAINDERS:  # also if it is larger than any double
        return inf
    digits = float(divisor)
    for _ in range(15):
        if digits.is_integer():
            return digits
        digits *= 10
    return inf


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
    """Converts a grammar of llama.cpp (GBNF) to llguidance's Lark dialect.

    Raises:
        GrammarError: it is not valid, or too large.
    """
    # The time of the conversion is quadratic: it searches all rules each time it finds terminals.
    steps = grammar.count("::=") * len(grammar)
    if steps > MAX_GBNF:
        message = f"the grammar is too large: {grammar.count('::='):,} rules"
        raise GrammarError(message, where="/grammar", hint="Write it in Lark, or simplify it")
    try:
        return gbnf_to_lark(grammar).replace(HEADER, "")
    except RecursionError as e:
        message = "the GBNF grammar is nested too deeply"
        raise GrammarError(message, where="/grammar", hint="Write inner groups as rules") from e
    except Exception as e:  # it raises a plain Exception if a rule is missing
        message = f"the GBNF grammar is not valid: {e}"
        raise GrammarError(message, where="/grammar", hint="Correct it") from e


def _compile(
    tokenizer: llguidance.LLTokenizer, grammar: str, limits: llguidance.LLParserLimits
) -> llguidance.LLMatcher:
    """Compiles a grammar in a thread with a large stack: Python can only choose that of threads.

    llguidance cannot be interrupted, but a grammar within the limits takes it seconds at most, and
    it releases the interpreter lock. If the client has left, the thread finishes by itself. Such
    threads still count towards the limit `AT_ONCE`.
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
