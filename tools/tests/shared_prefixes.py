"""Two servers and a Redis Cluster of three masters: one finds the prefixes that the other computed.

usage: shared_prefixes.py TERRACE MODEL
"""

import asyncio

import httpx

from checks import drawn_seed, equal, run
from prefix_traffic import PrefixTraffic
from redis_cluster import RedisCluster, wait_until
from tiered_server import TieredServer

PAGE_TOKENS = 16
STEM_TOKENS = 400
# A prompt takes many steps, so that look-ups in Redis have ended before the last of them.
OPTIONS = ["--threads", 2, "--kv-memory", "256MiB", "--max-step-tokens", 32]


def test_servers_share_prefixes(terrace, model):
    traffic = PrefixTraffic(drawn_seed(), stems=3, stem_tokens=STEM_TOKENS, endings=1, new_tokens=6)
    traffic.learn(terrace, model, *OPTIONS)
    with RedisCluster() as cluster:
        options = [*OPTIONS, "--kv-write-through", "--kv-tier", cluster.tier()]
        with TieredServer(terrace, model, *options) as first:
            asyncio.run(traffic.check_all(first.base))
            equal(first.tier("hits_total", "redis"), 0)
            pages = len(traffic.prompts) * (STEM_TOKENS // PAGE_TOKENS)
            wait_until("all pages are in Redis", lambda: cluster.records() >= pages)
            records = [int(master.command("DBSIZE")) for master in cluster.masters]
            assert all(records), f"a master has no page: {records}"
            with TieredServer(terrace, model, *options) as second:
                asyncio.run(check_second(traffic, second))


async def check_second(traffic, server):
    """It has computed nothing before."""
    async with httpx.AsyncClient(timeout=None) as client:
        for index, wanted in enumerate(traffic.outputs):
            ids, usage = await traffic.ask(client, server.base, index, cache_salt="another")
            equal(ids, wanted)
            equal(usage["prompt_tokens_details"]["cached_tokens"], 0)
        equal(server.tier("hits_total", "redis"), 0)
        for index, wanted in enumerate(traffic.outputs):
            ids, usage = await traffic.ask(client, server.base, index)
            equal(ids, wanted)
            hits, cached = server.tier("hits_total", "redis"), usage["prompt_tokens_details"]
            print(f"prompt {index}: {hits:.0f} hits so far, {cached}")
            assert cached["cached_tokens"] > 0, usage
            assert hits > 0, "pages came from elsewhere"


if __name__ == "__main__":
    run(globals(), "TERRACE MODEL")
