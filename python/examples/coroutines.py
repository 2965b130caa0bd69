"""Tickets and definitions in asyncio: many clients share a runtime, and none blocks the loop."""

import asyncio

import dwell

COUNT = """
DWELL_OPERATOR(count)(dwell::Group g, dwell::Span<dwell::u32> total, dwell::u32 by) {
  if (g.rank() == 0) total.atomic_add(0, by);
}"""


async def client(op: dwell.Operator, total: dwell.Buffer, number: int) -> None:
    for _ in range(100):
        await op(total, number)


async def main() -> None:
    with dwell.Runtime() as rt:
        count = await rt.define_async("count", COUNT)
        total = rt.array([0], "uint32")
        await asyncio.gather(*(client(count, total, number) for number in range(10)))
        print("total:", total.read()[0])
        assert total.read()[0] == 100 * sum(range(10))
        try:
            await rt.define_async("broken", "DWELL_OPERATOR(broken)(dwell::Group) { oops; }")
        except dwell.CompileError as error:
            print(error.log)


asyncio.run(main())
