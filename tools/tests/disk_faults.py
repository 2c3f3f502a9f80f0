"""The folder of a disk tier is damaged, cut and full while clients ask: no output is wrong or late.

usage: disk_faults.py TERRACE MODEL
"""

import asyncio
import json
import os
import random
import tempfile
from pathlib import Path

from checks import drawn_seed, run, wait_until_idle
from prefix_traffic import PrefixTraffic
from redis_cluster import wait_until
from tier_faults import DiskFaults, beside_traffic, check_breaker_lines, wait_until_used
from tiered_server import TieredServer

CLIENTS = 4
STEMS = 30
# Of prompts that levels hold: the disk must give up some too.
DEVICE, HOST, DISK = 4, 4, 20


def test_disk_faults_change_no_output(terrace, model):
    seed = drawn_seed()
    chance = random.Random(seed)
    traffic = PrefixTraffic(seed, stems=STEMS, stem_tokens=320, endings=2, new_tokens=8)
    traffic.learn(terrace, model, "--threads", 2)
    with tempfile.TemporaryDirectory() as folder:
        options = ["--threads", 2, "--kv-write-through", "--kv-memory", traffic.budget(DEVICE)]
        options += ["--kv-tier", f"host={traffic.budget(HOST)}"]
        options += ["--kv-tier", f"disk={folder},{traffic.budget(DISK)}"]
        with TieredServer(terrace, model, *options) as server:
            faults = DiskFaults(server, Path(folder), chance)
            steps = Steps(server, faults).all()
            asyncio.run(beside_traffic(traffic, server, CLIENTS, chance, steps))
            wait_until_idle(server.base)
            opened = check_breaker_lines(server, "disk")
            assert opened > 0, "no fault opened a breaker"
            # The server knows what it has written, and its end writes it again.
            (directory,) = Path(folder).rglob("*.directory")
            os.truncate(directory, 0)
            server.stop()
            assert directory.stat().st_size > 64, "the directory was not written again"
            # What is found by the next one comes from the disk alone.
            faults.corrupted(share=0.1)
            server.start()
            asyncio.run(traffic.check_all(server.base))
            print(json.dumps(traffic.report() | {"breakers_opened": opened}))


class Steps:
    """Each fault, and what is seen of it in the metrics."""

    def __init__(self, server, faults):
        self.server, self.faults = server, faults

    def all(self):
        return [self.quiet, self.corrupted, self.truncated, self.read_only, self.full]

    def quiet(self):
        wait_until_used(self.server, "disk")

    def corrupted(self):
        self.faults.corrupted()
        self.counts("damaged_records_total")
        wait_until_used(self.server, "disk")

    def truncated(self):
        self.faults.truncated()
        wait_until_used(self.server, "disk")

    def read_only(self):
        self.faults.read_only()
        wait_until_used(self.server, "disk")

    def full(self):
        self.faults.full()
        self.counts("errors_total")
        wait_until_used(self.server, "disk")

    def counts(self, name):
        wait_until(f"{name} is counted", lambda: self.server.tier(name, "disk") > 0)


if __name__ == "__main__":
    run(globals(), "TERRACE MODEL")
