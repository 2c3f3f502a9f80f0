"""Sixty-four streams at once, a third of them left in the middle; afterwards every page is free.

usage: concurrent_streams.py http://HOST:PORT
"""

import asyncio
import random

import openai

from checks import drawn_seed, equal, run, wait_until_idle

STREAMS = 64
NEW_TOKENS = 16


async def follow(client, model, index, leave_after):
    """Reads one stream, to its end or up to `leave_after` deltas; says how it ended."""
    stream = await client.completions.create(
        model=model,
        prompt=f"Story number {index % 7}: once upon a time",
        max_tokens=NEW_TOKENS,
        temperature=0.8,
        seed=index,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    deltas = 0
    async with stream:
        async for chunk in stream:
            deltas += 1
            if deltas == leave_after:
                return "left"
            if chunk.choices[0].finish_reason:
                return chunk.choices[0].finish_reason
    return "broken off"


async def follow_all(base, leave_after):
    async with openai.AsyncOpenAI(
        base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=600
    ) as client:
        model = (await client.models.list()).data[0].id
        follows = [follow(client, model, i, leave) for i, leave in enumerate(leave_after)]
        return await asyncio.gather(*follows)


def test_sixty_four_streams(base):
    seed = drawn_seed()
    chance = random.Random(seed)
    leavers = set(chance.sample(range(STREAMS), STREAMS // 3))
    # A delta may hold several tokens, so those who leave do it early.
    early = NEW_TOKENS // 3
    leave_after = [chance.randint(1, early) if i in leavers else None for i in range(STREAMS)]
    ends = asyncio.run(follow_all(base, leave_after))
    equal(ends, ["left" if i in leavers else "length" for i in range(STREAMS)])
    idle = wait_until_idle(base)
    assert idle["terrace_generation_tokens_total"] >= (STREAMS - len(leavers)) * NEW_TOKENS


if __name__ == "__main__":
    run(globals())
