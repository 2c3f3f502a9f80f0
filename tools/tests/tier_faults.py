"""What goes wrong with tiers while a server uses them: each fault does it, and undoes it.

Faults block; they run beside a loop of clients in a thread of their own.
"""

import asyncio
import math
import time

from redis_cluster import wait_until

# Longer than the time-out of a call to Redis, and than nodes need to call another one failed.
OUTAGE_SECONDS = 3
# A slow answer comes within the time-out of 500 ms, a late one after it.
SLOW_MS, LATE_MS = 150, 900


class RedisFaults:
    def __init__(self, cluster, chance):
        self.cluster, self.chance = cluster, chance

    def all(self):
        return [self.killed, self.emptied, self.paused, self.slowed]

    def killed(self):
        """A master dies and comes back empty."""
        master = self.chance.choice(self.cluster.masters)
        master.kill()
        time.sleep(OUTAGE_SECONDS)
        master.start()
        self.cluster.wait_until_ok()

    def emptied(self):
        self.cluster.empty()

    def paused(self):
        """A master hangs: it answers nothing and refuses nothing."""
        master = self.chance.choice(self.cluster.masters)
        master.pause()
        time.sleep(OUTAGE_SECONDS)
        master.resume()
        self.cluster.wait_until_ok()

    def slowed(self):
        for milliseconds in [SLOW_MS, LATE_MS, SLOW_MS]:
            self.cluster.slow_down(milliseconds)


class DiskFaults:
    def __init__(self, server, folder, chance):
        self.server, self.folder, self.chance = server, folder, chance

    def all(self):
        return [self.corrupted, self.truncated, self.read_only, self.full]

    def files(self):
        return [path for path in files_in(self.folder) if path.stat().st_size > 0]

    def corrupted(self, share=1.0):
        """A byte changes in that share of the files' blocks."""
        for path in self.files():
            size = path.stat().st_size
            blocks = range(0, size, 4096)
            with path.open("r+b") as file:
                for start in self.chance.sample(blocks, math.ceil(share * len(blocks))):
                    file.seek(min(start + self.chance.randrange(4096), size - 1))
                    file.write(self.chance.randbytes(1))

    def truncated(self):
        for path in self.files():
            with path.open("r+b") as file:
                file.truncate(self.chance.randrange(path.stat().st_size))

    def read_only(self):
        for path in [*self.files(), self.folder]:
            path.chmod(0o555)
        time.sleep(1)
        for path in [self.folder, *self.files()]:
            path.chmod(0o755)

    def full(self):
        """No file may grow."""
        self.server.limit_files(1)
        time.sleep(OUTAGE_SECONDS)
        self.server.limit_files(None)


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


async def beside_traffic(traffic, server, clients, chance, steps):
    """Runs the blocking `steps` one after the other while clients ask; every one of their requests
    must have the right output in time, and some must end during each step."""
    ends = asyncio.Event()
    running = asyncio.create_task(traffic.run(server.base, clients, ends, chance))
    try:
        for step in steps:
            before, began = traffic.finished, time.monotonic()
            await asyncio.to_thread(step)
            seconds = time.monotonic() - began
            print(f"{step.__name__}: {traffic.finished - before} outputs in {seconds:.1f} s")
            assert not traffic.problems, "\n".join(traffic.problems[:10])
            while traffic.finished == before:
                await asyncio.sleep(0.1)
                assert not traffic.problems, "\n".join(traffic.problems[:10])
    finally:
        ends.set()
        await running
    assert not traffic.problems, "\n".join(traffic.problems[:10])


def wait_until_used(server, tier):
    """Its breakers are closed, and it takes pages and gives pages."""

    def used():
        return server.tier("hits_total", tier), server.tier("written_bytes_total", tier)

    hits, written = used()
    wait_until(f"the {tier} tier's breakers are closed", lambda: not open_breakers(server, tier))
    wait_until(f"the {tier} tier takes pages", lambda: used()[1] > written)
    wait_until(f"the {tier} tier gives pages", lambda: used()[0] > hits)


def open_breakers(server, tier):
    return server.tier("open_breakers", tier)


def check_breaker_lines(server, tier):
    """One line when a breaker opens and one when it closes, in turn; returns how often one opened.

    A line may tell of damaged pages, once for each read that found some; there is no other."""
    opened = 0
    lines = [line for line in server.lines if f" {tier} tier" in line]
    for side in ("reading from", "writing to"):
        opens, closes = f"no more {side} the {tier} tier", f"{side} the {tier} tier again"
        changes = [opens in line for line in lines if opens in line or closes in line]
        expected = [index % 2 == 0 for index in range(len(changes))]
        assert changes == expected, f"{side} the {tier} tier, opened: {changes}"
        opened += sum(changes)
        lines = [line for line in lines if opens not in line and closes not in line]
    others = [line for line in lines if f"pages of the {tier} tier are left out" not in line]
    assert not others, "".join(others[:10])
    return opened
