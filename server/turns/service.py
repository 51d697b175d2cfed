"""The model that is served, with what the server keeps between requests."""

from dataclasses import dataclass, field

from constrained.model.model import Model
from server.ids import CallIds
from server.metrics import Counters
from server.observe.prefix_watch import PrefixWatch
from server.observe.telemetry import Telemetry
from server.observe.trace_file import TraceFile
from server.settings import Settings
from server.turns.stable_prompts import ConversationDates


@dataclass(frozen=True)
class Service:
    """A model that is served, and the settings of the server.

    Args:
        model: closed when the server ends.
        settings: how the server behaves.
        call_ids: the ids that the model wrote in its calls.
        dates: when conversations began.
        prefixes: what the last requests were made of.
        counters: what `/metrics` shows.
        telemetry: takes a span for each reply; None: nobody does.
        traces: takes a trace of each reply; None: nobody does.
        name: what clients know the model as.
    """

    model: Model
    settings: Settings
    call_ids: CallIds = field(default_factory=CallIds)
    dates: ConversationDates = field(default_factory=ConversationDates)
    prefixes: PrefixWatch = field(default_factory=PrefixWatch)
    counters: Counters = field(default_factory=Counters)
    telemetry: Telemetry | None = None
    traces: TraceFile | None = None
    name: str = "demo"
