"""The model that is served, with what the server keeps between requests."""

from dataclasses import dataclass, field

from constrained.model.model import Model
from server.ids import CallIds
from server.metrics import Counters
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
        counters: what `/metrics` shows.
        name: what clients know the model as.
    """

    model: Model
    settings: Settings
    call_ids: CallIds = field(default_factory=CallIds)
    dates: ConversationDates = field(default_factory=ConversationDates)
    counters: Counters = field(default_factory=Counters)
    name: str = "demo"
