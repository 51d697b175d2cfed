"""Reads the reasoning of a turn."""

from grammars.parse.output import TurnOutput
from grammars.spelling.buffer import Buffer, Steps
from grammars.turn import Start, State, find_reasoning_start
from grammars.wire.format import Reasoning


class ReasoningReader:
    """Reads what opens and closes reasoning: the block, and thoughts between other tags."""

    def __init__(
        self,
        state: State,
        buffer: Buffer,
        output: TurnOutput,
        *,
        block: Reasoning | None,
        thoughts: tuple[str, str] | None,
        recover: bool,
    ):
        self._state = state
        self._buffer = buffer
        self._output = output
        self.block = block
        self._thoughts = thoughts
        self._recover = recover
        self._start = find_reasoning_start(block, state)
        output.in_block = self._start.is_open

    @property
    def may_be_cut(self) -> bool:
        """True if the turn may end in the opener of the block."""
        return self._start.may_open and not self._output.in_block and self._buffer.closed

    def read_head(self) -> Steps[None]:
        """Reads what may come before content: padding, and the opener of reasoning."""
        if self._state.start is Start.OPEN and self.block is not None:
            self._output.show(self.block.head.removesuffix(self._state.pad))
        if self._state.start is not Start.PLAIN:
            self._buffer.mark()
            yield from self._buffer.skip(self._state.pad)
            pad = self._buffer.forget()
            if self._output.in_block:
                self._output.show(pad)
        if self.block is not None:
            yield from self._read_block_start(self.block)
        if not self._output.in_block and self._thoughts and self._thoughts[0]:
            self._output.in_thoughts = yield from self._buffer.accept(self._thoughts[0])
            if self._output.in_thoughts:
                yield from self._buffer.skip("\n")

    def _read_block_start(self, block: Reasoning) -> Steps[None]:
        instead = self._start.instead
        may_open = self._start.may_open or (self._recover and not self._output.in_block)
        self._buffer.mark()
        if may_open and (yield from self._buffer.accept(block.opener.text.lstrip())):
            self._output.in_block = True
            yield from self._buffer.skip(block.pad_open)
        elif instead and (yield from self._buffer.accept(*instead)):
            yield from self._buffer.skip(block.after)
        self._output.show(self._buffer.forget())

    def read_stray(self, stop: str) -> Steps[None]:
        """Continues after a marker of the block that is not at the beginning of the turn."""
        if self.block is None or stop != self.block.opener.text:
            return
        self._output.in_block = True
        yield from self._show_with(stop, self.block.pad_open)

    def _show_with(self, tag: str, pad: str) -> Steps[None]:
        """Takes the padding after a tag; emits both if reasoning is content."""
        self._buffer.mark()
        yield from self._buffer.skip(pad)
        self._output.show(tag + self._buffer.forget())

    def close(self, stop: str) -> Steps[bool]:
        """Continues after the closer of the reasoning; returns False if this is none."""
        block, output = self.block, self._output
        if output.is_inside and block is not None and stop in block.closers:
            yield from self._close_block(stop, block)
            return True
        if output.in_thoughts and self._thoughts and stop.endswith(self._thoughts[1]):
            output.in_thoughts = False
            yield from self._buffer.skip("\n\n")
            return True
        return False

    def _close_block(self, stop: str, block: Reasoning) -> Steps[None]:
        if self._output.pending is not None:
            if (yield from self._buffer.peek(self._buffer.next_visible())):
                self._output.forget_pending()
                self._output.write(self._buffer.forget().removesuffix(stop))
            else:
                self.release()
        self._output.in_block = False
        tag = stop.removesuffix(block.next_opener)
        yield from self._show_with(tag, block.after)

    def read_pending(self, opener: str, steps: Steps[bool]) -> Steps[None]:
        """Tries to read a call in the block, which waits until it is known whether it is meant."""
        self._output.begin_pending()
        self._buffer.unread(opener)
        self._buffer.mark()
        self._buffer.take(len(opener))
        if (yield from steps):
            self._output.in_block = False  # a call ends the block, unless the closer follows
        else:
            self.release()

    def release(self) -> None:
        if self._output.pending is not None:
            self._output.release()
            self._buffer.forget()
