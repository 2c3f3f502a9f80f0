"""Servers that write pages to a disk are killed at random moments: the next one serves what is there.

usage: killed_servers.py TERRACE MODEL

TERRACE_KILLS says how often (20). A server under load is killed with SIGKILL and started again on the
same folder; its outputs must be the right ones, and over all rounds pages must have been found on the
disk. What else a server promises to keep is an operation: it acts beside the load, and after each
restart everything that was acknowledged must be there.
"""

import asyncio
import json
import os
import random
import tempfile
from pathlib import Path

from checks import drawn_seed, run
from kept_handles import KeptHandles
from prefix_traffic import PrefixTraffic
from tier_faults import files_in
from tiered_server import TieredServer

KILLS = int(os.environ.get("TERRACE_KILLS", "20"))
CLIENTS = 3
STEMS = 30
# Of prompts that levels hold.
DEVICE, HOST, DISK = 4, 2, 40
# Or three prompts, where these take longer.
LONGEST_LOAD_SECONDS = 1.0


def test_killed_servers_leave_nothing_torn(terrace, model):
    seed = drawn_seed()
    chance = random.Random(seed)
    traffic = PrefixTraffic(seed, stems=STEMS, stem_tokens=320, endings=2, new_tokens=8)
    traffic.learn(terrace, model, "--threads", 2)
    handles = KeptHandles(traffic)
    hits = damaged = 0
    with tempfile.TemporaryDirectory() as folder:
        budget = traffic.budget(DISK)
        options = ["--threads", 2, "--kv-write-through", "--kv-memory", traffic.budget(DEVICE)]
        options += ["--kv-tier", f"host={traffic.budget(HOST)}"]
        options += ["--kv-tier", f"disk={folder},{budget}"]
        with TieredServer(terrace, model, *options) as server:
            for kill in range(KILLS):
                asyncio.run(load_and_kill(traffic, server, [handles], chance))
                assert not traffic.problems, f"kill {kill}: " + "\n".join(traffic.problems[:10])
                files = sum(path.stat().st_size for path in files_in(Path(folder)))
                assert files <= budget, f"kill {kill}: {files} bytes of {budget}"
                server.start()
                asyncio.run(check_some(traffic, server, [handles], chance))
                hits += server.tier("hits_total", "disk")
                damaged += server.tier("damaged_records_total", "disk")
    found = {"kills": KILLS, "hits": hits, "damaged": damaged, "handles": handles.acknowledged}
    print(json.dumps(traffic.report() | found))
    assert hits > 0, "nothing was ever found on the disk"
    assert handles.acknowledged > 0, "no handle was ever acknowledged"


async def load_and_kill(traffic, server, operations, chance):
    """Clients and operations run until the server is killed under them."""
    ends, is_killed = asyncio.Event(), False
    running = [traffic.run(server.base, CLIENTS, ends, chance, may_break=lambda: is_killed)]
    running += [operation.act(server.base, chance) for operation in operations]
    running = asyncio.gather(*running)
    longest = max(LONGEST_LOAD_SECONDS, 3 * traffic.alone_seconds)
    await asyncio.sleep(chance.uniform(0.02, longest))
    is_killed = True
    ends.set()
    server.kill()
    await running


async def check_some(traffic, server, operations, chance):
    """A few prompts of all, and all that was acknowledged."""
    for operation in operations:
        await operation.check(server.base)
    await traffic.check_all(server.base, chance.sample(range(len(traffic.prompts)), 8))


if __name__ == "__main__":
    run(globals(), "TERRACE MODEL")
