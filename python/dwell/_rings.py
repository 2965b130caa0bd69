"""Rings in event loops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LEAST, _MOST = 2e-5, 2e-3  # seconds between two looks


async def messages(ring: Any) -> AsyncIterator[Any]:
    """Take messages until the ring is closed, and let other coroutines run while there is none."""
    pause = _LEAST
    while True:
        # `pop` raises when the runtime has ended, or its device failed, and no message is left.
        message = ring.try_pop() if pause < _MOST else ring.pop(timeout=0.0)
        if message is not None:
            pause = _LEAST
            yield message
        elif ring.finished:
            return
        else:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MOST)
