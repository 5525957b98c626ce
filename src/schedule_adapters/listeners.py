"""Lists of those who want to hear of something, none of whom can harm whoever tells them."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

_log = logging.getLogger("schedule_adapters")
_Listener = TypeVar("_Listener")


def notify(listeners: Sequence[Callable[..., None]], *arguments: object) -> None:
    """Call each of them; one that fails is logged, and costs no other its call."""
    for listener in list(listeners):
        try:
            listener(*arguments)
        except Exception as error:  # noqa: BLE001 - foreign code; logged here, whatever it is
            # Its kind alone: a listener hears what is said, and its words may repeat it.
            _log.warning("a listener of the session failed: %s", type(error).__name__)


def subscribe(listeners: list[_Listener], listener: _Listener) -> Callable[[], None]:
    """Add one; gives the function that takes it away again."""
    listeners.append(listener)
    return partial(_unsubscribe, listeners, listener)


def _unsubscribe(listeners: list[_Listener], listener: _Listener) -> None:
    if listener in listeners:
        listeners.remove(listener)
