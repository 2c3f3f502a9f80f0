"""Clients whose prompts share prefixes, and who know the right output of each.

The right outputs are those of a server that keeps nothing below its device. Prompts are token ids, so
that they fit every model; outputs are greedy.
"""

import asyncio
import random
import time

import httpx

from tiered_server import TieredServer

# A server's default.
PAGE_TOKENS = 16
# Against hangs: so many times what the clients would take one after the other without tiers, for the
# machine has other work too, and room for the time-outs of the tiers, which are a second or less.
DEADLINE_FACTOR, ROOM_SECONDS = 4, 20


class PrefixTraffic:
    def __init__(self, seed, stems, stem_tokens, endings, new_tokens):
        """`stems` beginnings of prompts, each with `endings` ends of up to two dozen tokens."""
        chance = random.Random(seed)
        self.stem_tokens, self.new_tokens = stem_tokens, new_tokens
        self.prompts = []
        for _ in range(stems):
            stem = [chance.randrange(10, 250) for _ in range(stem_tokens)]
            for _ in range(endings):
                end = [chance.randrange(10, 250) for _ in range(chance.randrange(1, 25))]
                self.prompts.append(stem + end)
        self.outputs = []
        self.page_bytes = 0
        self.alone_seconds = 300.0
        self.deadline_seconds = 300.0
        self.finished = self.cancelled = 0
        self.slowest_seconds = 0.0
        self.cached_tokens = 0
        self.problems = []

    def learn(self, terrace, model, *options):
        """Fills in the right outputs, how long one takes at most, and how large a page is."""
        with TieredServer(terrace, model, *options) as server:
            self.outputs = asyncio.run(self.learned(server.base))
            self.page_bytes = server.page_bytes()
        self.alone_seconds, self.slowest_seconds = self.slowest_seconds, 0.0
        self.set_deadline(clients=1)

    def set_deadline(self, clients):
        self.deadline_seconds = DEADLINE_FACTOR * clients * self.alone_seconds + ROOM_SECONDS

    async def learned(self, base):
        async with httpx.AsyncClient(timeout=None) as client:
            return [(await self.ask(client, base, index))[0] for index in range(len(self.prompts))]

    async def ask(self, client, base, index, **fields):
        """The ids of an output, and its usage."""
        body = {"prompt": self.prompts[index], "max_tokens": self.new_tokens, "temperature": 0}
        body |= {"ignore_eos": True, "return_token_ids": True, **fields}
        began = time.monotonic()
        response = await client.post(f"{base}/v1/completions", json=body)
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
        assert response.status_code == 200, f"{response.status_code}: {response.text[:300]}"
        response = response.json()
        self.cached_tokens += response["usage"]["prompt_tokens_details"]["cached_tokens"]
        return response["choices"][0]["token_ids"], response["usage"]

    async def cancel(self, client, base, index, chance):
        """Leaves a stream after some of its events, or before the first."""
        body = {"prompt": self.prompts[index], "max_tokens": 4 * self.new_tokens, "stream": True}
        body |= {"temperature": 0, "ignore_eos": True}
        leave_after = chance.randrange(0, self.new_tokens)
        async with client.stream("POST", f"{base}/v1/completions", json=body) as response:
            assert response.status_code == 200, response.status_code
            events = response.aiter_lines()
            for _ in range(leave_after):
                await anext(events, None)

    async def check_all(self, base, indices=None):
        """Every prompt once, or these, one after the other."""
        async with httpx.AsyncClient(timeout=None) as client:
            for index in indices or range(len(self.prompts)):
                await self.check_one(client, base, index)

    async def check_one(self, client, base, index):
        asked = self.ask(client, base, index)
        try:
            ids, _ = await asyncio.wait_for(asked, self.deadline_seconds)
        except asyncio.TimeoutError:
            deadline = f"{self.deadline_seconds:.1f} s"
            raise AssertionError(f"prompt {index} was not answered in {deadline}") from None
        wanted = self.outputs[index]
        assert ids == wanted, f"prompt {index}: got {ids}, want {wanted}"
        self.finished += 1

    async def run(self, base, clients, ends, chance, cancelling=0, may_break=lambda: False):
        """Asks until `ends` is set. So many of the clients cancel what they ask for. What goes wrong
        is in `problems`, but for connections that break while they may."""
        self.set_deadline(clients)

        async def client_loop(number):
            async with httpx.AsyncClient(timeout=None) as client:
                while not ends.is_set():
                    index = chance.randrange(len(self.prompts))
                    try:
                        if number < cancelling:
                            await self.cancel(client, base, index, chance)
                            self.cancelled += 1
                        else:
                            await self.check_one(client, base, index)
                    except (AssertionError, httpx.HTTPError) as error:
                        if not (may_break() and isinstance(error, httpx.HTTPError)):
                            self.problems.append(f"{type(error).__name__}: {error}")

        await asyncio.gather(*[client_loop(number) for number in range(clients)])

    def budget(self, prompts):
        """Bytes of so many prompts' pages, which no other shares."""
        longest = max(map(len, self.prompts)) + self.new_tokens
        return prompts * (longest // PAGE_TOKENS + 1) * self.page_bytes

    def report(self):
        return {
            "finished": self.finished,
            "cancelled": self.cancelled,
            "cached_tokens": self.cached_tokens,
            "slowest_s": round(self.slowest_seconds, 3),
            "deadline_s": round(self.deadline_seconds, 3),
        }
