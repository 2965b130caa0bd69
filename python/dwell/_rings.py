"""Rings in event loops."""

import asyncio


async def messages(ring):
    """Take messages until the ring is closed, and let other coroutines run while there is none."""
    pause = 0.0
    while True:
        message = ring.try_pop()
        if message is not None:
            pause = 0.0
            yield message
            continue
        if ring.finished:
            return
        # Raises when the runtime has ended, or its device failed.
        if pause >= 1e-3:
            message = ring.pop(timeout=0.0)
            if message is not None:
                yield message
                continue
        await asyncio.sleep(pause)
        pause = min(2 * pause + 2e-5, 2e-3)
