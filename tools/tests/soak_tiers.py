"""A server with all tiers under load for a long time, while its tiers fail again and again.

usage: soak_tiers.py TERRACE [--model MODEL] [--minutes 60] [--device cuda:0] [--no-redis]

Every few seconds a random fault: a Redis master dies, hangs or is slow, the cluster is emptied, files
of the disk tier are damaged, cut or full. A third of the clients cancel what they ask for. No request
fails, every output is right, memory stays flat, budgets are kept at every moment, and in the end every
page is free. Then the server is stopped, started again on the same tiers and asked once more.
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from checks import drawn_seed, metrics, wait_until_idle
from prefix_traffic import PrefixTraffic
from redis_cluster import RedisCluster, wait_until
from tier_faults import DiskFaults, RedisFaults, check_breaker_lines, files_in
from tiered_server import TieredServer

CLIENTS, CANCELLING = 9, 3
STEMS = 24
# Of prompts that levels hold: each gives up some. Of the default model a prompt takes 9 MiB.
DEVICE, HOST, DISK, REDIS_MASTER = 4, 4, 8, 4
# Redis evicts when the next command comes, and what is on its way to and from clients comes on top: a
# server has three calls that read and one that writes, with 32 MiB each at most.
REDIS_BUFFERS = 128 << 20
FAULT_PAUSE_SECONDS = (1, 10)
CORRUPTED_SHARE = 0.02
# Tiers copy what they read and write, 16 MiB a call on the CPU and 64 MiB on a GPU, in up to four calls
# for each tier, and the allocator gives such memory back with a delay. So one sample says little; the
# medians of two quarters of the time may differ by one such call.
RESIDENT_MIB = 64


class Soak:
    def __init__(self, server, traffic, folder, cluster, seed):
        self.disk_budget = traffic.budget(DISK)
        self.redis_budget = traffic.budget(REDIS_MASTER)
        self.server, self.traffic, self.folder, self.cluster = server, traffic, folder, cluster
        # Each thread draws for itself.
        self.chance, fault_chance = random.Random(seed), random.Random(seed + 1)
        disk = DiskFaults(server, folder, fault_chance)
        self.faults = [lambda: disk.corrupted(CORRUPTED_SHARE), disk.truncated, disk.full]
        self.faults[0].__name__ = "corrupted"
        if cluster is not None:
            self.faults += RedisFaults(cluster, fault_chance).all()
        self.fault_chance = fault_chance
        self.counts = {}
        self.redis_peaks = []
        self.resident = []

    async def run(self, seconds):
        ends = asyncio.Event()
        base = self.server.base
        load = self.traffic.run(base, CLIENTS, ends, self.chance, CANCELLING)
        running = [asyncio.create_task(load)]
        running.append(asyncio.create_task(asyncio.to_thread(self.fail_again, ends)))
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                await asyncio.to_thread(self.sample)
                assert not self.traffic.problems, "\n".join(self.traffic.problems[:10])
                assert not running[1].done(), "faults have ended early"
                await asyncio.sleep(1)
        finally:
            ends.set()
            await asyncio.gather(*running)
        assert not self.traffic.problems, "\n".join(self.traffic.problems[:10])

    def fail_again(self, ends):
        while not ends.is_set():
            time.sleep(self.fault_chance.uniform(*FAULT_PAUSE_SECONDS))
            fault = self.fault_chance.choice(self.faults)
            fault()
            self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1

    def sample(self):
        """Memory and budgets, now."""
        assert self.server.process.poll() is None, "the server ended by itself"
        self.resident.append(self.server.resident_mib())
        sizes = [path.stat() for path in files_in(self.folder)]
        for what, size in [
            ("bytes of its files", sum(size.st_size for size in sizes)),
            ("bytes on the disk", sum(512 * size.st_blocks for size in sizes)),
            ("bytes as it counts", self.server.tier("bytes", "disk")),
        ]:
            most = self.disk_budget
            assert size <= most, f"the disk tier has {size} {what}, its budget is {most}"

    def check_redis(self):
        """The most that each has had since it was started last."""
        for master in self.cluster.masters if self.cluster else []:
            peak, most = int(master.info("memory", "used_memory_peak")), self.redis_budget
            assert peak <= most + REDIS_BUFFERS, f"a master had {peak} bytes, maxmemory is {most}"
            self.redis_peaks.append(peak >> 20)

    def check_memory(self):
        """Of four quarters the first warms up: it touches pages for the first time."""
        quarter = len(self.resident) // 4
        medians = [
            round(statistics.median(self.resident[number * quarter : (number + 1) * quarter]))
            for number in range(4)
        ]
        growth = medians[3] - medians[1]
        assert growth <= RESIDENT_MIB, f"resident MiB by quarters: {medians}"
        return medians

    def check_accounts(self):
        """Nothing runs: no page of the device and of host memory is held by anyone."""
        wait_until_idle(self.server.base)

        def is_free():
            now = metrics(self.server.base)
            return now["terrace_host_tier_pages_free"] == now["terrace_host_tier_pages"]

        wait_until("all pages of host memory are free", is_free)

    def report(self):
        tiers = ["disk"] if self.cluster is None else ["disk", "redis"]
        names = ["hits_total", "misses_total", "evictions_total", "errors_total"]
        names += ["damaged_records_total", "written_bytes_total", "read_bytes_total"]
        report = self.traffic.report() | {"faults": self.counts, "redis_peak_mib": self.redis_peaks}
        for tier in tiers:
            report[tier] = {name: self.server.tier(name, tier) for name in names}
            report[tier]["breakers_opened"] = check_breaker_lines(self.server, tier)
        now = metrics(self.server.base)
        for name in ["pages_promoted_total", "pages_demoted_total", "preemptions_total"]:
            report[name] = now[f"terrace_{name}"]
        return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("terrace", help="the program")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a file, folder or name")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:0")
    parser.add_argument("--no-redis", action="store_true", help="only host memory and disk")
    args = parser.parse_args()
    seed = drawn_seed()
    device = ["--device", args.device]
    device += [] if args.device == "cpu" else ["--deterministic"]
    traffic = PrefixTraffic(seed, stems=STEMS, stem_tokens=384, endings=3, new_tokens=8)
    traffic.learn(args.terrace, args.model, *device)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        options = ["--kv-write-through", "--kv-memory", traffic.budget(DEVICE)]
        options += ["--kv-tier", f"host={traffic.budget(HOST)}"]
        options += ["--kv-tier", f"disk={folder},{traffic.budget(DISK)}"]
        cluster = None
        if not args.no_redis:
            limit = ["--maxmemory", traffic.budget(REDIS_MASTER)]
            evicting = ["--maxmemory-policy", "allkeys-lru"]
            cluster = stack.enter_context(RedisCluster(*limit, *evicting))
            options += ["--kv-tier", cluster.tier()]
        server = TieredServer(args.terrace, args.model, *device, *options)
        soak = Soak(stack.enter_context(server), traffic, Path(folder), cluster, seed)
        asyncio.run(soak.run(60 * args.minutes))
        soak.check_accounts()
        soak.check_redis()
        report = soak.report() | {"resident_mib_by_quarters": soak.check_memory()}
        asyncio.run(traffic.check_all(server.base))
        server.stop()
        server.start()
        # Those first that were asked for last: the disk has room for some alone.
        asyncio.run(traffic.check_all(server.base, list(reversed(range(len(traffic.prompts))))))
        hits = report["hits_after_restart"] = server.tier("hits_total", "disk")
        print(json.dumps(report, indent=1))
        # A GPU computes such short prompts before the disk is asked.
        assert hits > 0 or args.device != "cpu", "nothing was found on the disk after the restart"


if __name__ == "__main__":
    main()
