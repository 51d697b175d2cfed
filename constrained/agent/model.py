"""The public class of a model: a loaded model that can run tools."""

from typing import Unpack

from constrained.agent import run as agent
from constrained.agent.finished_run import Run
from constrained.agent.run_options import RunOptions
from constrained.agent.run_tools import RunTools
from constrained.model.call_options import Messages
from constrained.model.loaded_model import LoadedModel


class Model(LoadedModel):
    """A loaded model; make one with `load` or `from_llama`.

    `call` generates one turn, `run` is the agent loop, `generate` returns a value, `stream` gives
    events; `acall`, `arun`, `agenerate` and `astream` are the same for asyncio. All are safe to use
    from several threads. A model is a context manager: `with load() as model:` closes it.

    Args:
        engine: runs the model, here or elsewhere.
        template: the chat template.
        tool_template: the chat template for requests with tools, if the file has one.
        sampling: how tokens are sampled if a request does not say.
        notices: notes for the user about this model.
        tool_format: wire format of calls, in place of the one of the chat template.
        deterministic: give the same reply to the same request and seed, independently of other
            requests and of caches; slower.
        step: maximum number of tokens in one forward pass.
        clock: measures timeouts, in seconds.
        cache: where prompts and replies are kept that no longer fit into the KV cache.
        draft: speculative decoding where a turn repeats a text of the prompt.
        max_waiting: maximum number of waiting requests; further ones fail with a `BusyError`.

    Attributes:
        notices: notes for the user, such as options without effect.
        sampling: how tokens are sampled if a request does not say.

    Raises:
        TemplateError: the chat template is not valid.
        RequestError: the model cannot use this wire format, or the cache folder cannot be used.
    """

    def run(self, messages: Messages, tools: RunTools, **options: Unpack[RunOptions]) -> Run:
        """Runs the agent loop: calls the model, executes its calls, shows it the results, and
        repeats that until it answers.

        If a function raises an exception, the model reads the message and can correct its call. If
        a turn calls a tool that has no function, or the tokens run out, the run ends and none of
        the calls of that turn is executed.

        A `tool_choice` that requires a call applies to the first turn; it is "auto" afterwards, as
        the model could never answer otherwise.

        Args:
            messages: the conversation in OpenAI's form, or the text of a user message.
            tools: as for `call`; functions, models and `FunctionTool`s can be executed. Or a
                function that returns them, called before each turn.
            options: see `constrained.agent.run_options.RunOptions`, which adds to `Options`.

        Returns:
            The run: the last reply, all calls with their results, and the whole conversation.

        Raises:
            Error: as for `call`. Exceptions of your functions are not raised.
        """
        return agent.run(self, messages, tools, **options)

    async def arun(self, messages: Messages, tools: RunTools, **options: Unpack[RunOptions]) -> Run:
        """Like `run`, for asyncio; functions may be async, and the calls of one turn run
        concurrently."""
        return await agent.arun(self, messages, tools, **options)
