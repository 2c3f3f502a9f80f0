"""A Redis Cluster of three masters fails in every way while clients ask: no output is wrong or late.

usage: redis_faults.py TERRACE MODEL
"""

import asyncio
import json
import random
import tempfile

from checks import drawn_seed, run, wait_until_idle
from prefix_traffic import PrefixTraffic
from redis_cluster import RedisCluster, wait_until
from tier_faults import RedisFaults, beside_traffic, check_breaker_lines, wait_until_used
from tiered_server import TieredServer

CLIENTS = 4
STEMS = 40
# Of prompts that the levels above Redis hold: less than a half of them.
DEVICE, HOST, DISK = 6, 4, 6


def test_redis_faults_change_no_output(terrace, model):
    seed = drawn_seed()
    chance = random.Random(seed)
    traffic = PrefixTraffic(seed, stems=STEMS, stem_tokens=320, endings=2, new_tokens=8)
    traffic.learn(terrace, model, "--threads", 2)
    with RedisCluster() as cluster, tempfile.TemporaryDirectory() as folder:
        options = ["--threads", 2, "--kv-write-through", "--kv-memory", traffic.budget(DEVICE)]
        options += ["--kv-tier", f"host={traffic.budget(HOST)}", "--kv-tier", cluster.tier()]
        options += ["--kv-tier", f"disk={folder},{traffic.budget(DISK)}"]
        with TieredServer(terrace, model, *options) as server:
            steps = Steps(server, RedisFaults(cluster, chance)).all()
            asyncio.run(beside_traffic(traffic, server, CLIENTS, chance, steps))
            wait_until_idle(server.base)
            opened = check_breaker_lines(server, "redis")
            print(json.dumps(traffic.report() | {"breakers_opened": opened}))
            assert opened > 0, "no fault opened a breaker"
            assert traffic.cached_tokens > 0, "no prefix was found"


class Steps:
    """Each fault, and what is seen of it in the metrics."""

    def __init__(self, server, faults):
        self.server, self.faults = server, faults

    def all(self):
        return [self.quiet, self.killed, self.emptied, self.paused, self.slowed]

    def quiet(self):
        wait_until_used(self.server, "redis")
        errors = self.server.tier("errors_total", "redis")
        assert errors == 0, f"{errors} errors without a fault"

    def killed(self):
        self.fails(self.faults.killed)

    def paused(self):
        self.fails(self.faults.paused)

    def fails(self, fault):
        errors = self.server.tier("errors_total", "redis")
        fault()
        wait_until("errors are counted", lambda: self.server.tier("errors_total", "redis") > errors)
        wait_until_used(self.server, "redis")

    def emptied(self):
        misses = self.server.tier("misses_total", "redis")
        self.faults.emptied()
        wait_until("misses are counted", lambda: self.server.tier("misses_total", "redis") > misses)
        wait_until_used(self.server, "redis")

    def slowed(self):
        self.faults.slowed()
        wait_until_used(self.server, "redis")


if __name__ == "__main__":
    run(globals(), "TERRACE MODEL")
