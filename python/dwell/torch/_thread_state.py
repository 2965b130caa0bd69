"""State of a thread: the contexts that it is in, and its call sites."""

from __future__ import annotations

import threading
from typing import Any

from ._choice import Choice, Turns


class _Thread(threading.local):
    """State of a thread."""

    depth = 0  # contexts that it is in
    watches = False  # flushes before it reads tensors: it is not the thread that loaded the extension
    enabled: tuple[int, int, bool] | None = None  # the limits before `enable`

    def __init__(self) -> None:
        self.turns = Turns()
        self.choices: dict[Any, Choice] = {}  # by call site and limits


thread = _Thread()
