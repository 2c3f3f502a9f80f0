"""Thousands of users of a recommender, a few of them often, against a device cache for a tenth.

usage: soak_users.py TERRACE [--minutes 10] [--users 2000] [--cached 200] [--device cuda:0] [--no-redis]

Histories grow, are edited, and begin anew when they are full. Every answer is compared with that of a
server that caches nothing, bit for bit. A third of the time in, a Redis master dies, and comes back
at the half; two thirds in, the server is killed and started again, and finds histories on its disk.
Hit rates by level and latencies are printed.
"""

import argparse
import json
import random
import tempfile
import threading
import time

from checks import drawn_seed, metrics, samples
from random_ranker import page_bytes, write_model
from ranked_users import MOST_EVENTS, RankedUser, Refused, ask, fresh_logits, logits
from redis_cluster import RedisCluster
from tiered_server import TieredServer

CLIENTS = 6
ZIPF = 1.1
USER_PAGES = 4


class Users:
    """Histories, each with a lock: requests of one user follow each other."""

    def __init__(self, count, seed):
        self.users = [RankedUser(f"user {i}", random.Random(seed + i)) for i in range(count)]
        self.locks = [threading.Lock() for _ in range(count)]
        self.weights = [1 / (rank + 1) ** ZIPF for rank in range(count)]

    def draw(self, chance):
        return chance.choices(range(len(self.users)), self.weights)[0]

    def change(self, index):
        user = self.users[index]
        if user.chance.random() < 0.03:
            user.edit()
        user.grow(8)
        if len(user.items) == MOST_EVENTS:
            user.items, user.actions = user.items[-20:], user.actions[-20:]


class Soak:
    def __init__(self, users, base, fresh):
        self.users, self.base, self.fresh = users, base, fresh
        self.ends, self.problems, self.seconds, self.answers = False, [], [], 0
        self.restarting = threading.Event()
        self.lower_after_restart = 0

    def client(self, number, seed):
        chance = random.Random(seed)
        while not self.ends:
            index = self.users.draw(chance)
            with self.users.locks[index]:
                self.users.change(index)
                request = self.users.users[index].request()
                try:
                    self.ask(request, number)
                except Refused as refusal:
                    self.problems.append(f"{refusal.status}: {refusal}")
                except OSError as error:
                    if not self.restarting.is_set():
                        self.problems.append(f"{error}")
                    time.sleep(0.2)

    def ask(self, request, number):
        began = time.monotonic()
        answer = ask(self.base(), "POST", "/v1/rank", request)
        self.seconds.append(time.monotonic() - began)
        want = fresh_logits(self.fresh, request, f"nobody {number}")
        if logits(answer) != want:
            self.problems.append(f"{request['user']}: {logits(answer)[0]} instead of {want[0]}")
        self.answers += 1

    def run(self, minutes, steps):
        """`steps` are done when their share of the time has passed."""
        threads = [
            threading.Thread(target=self.client, args=[number, drawn_seed()])
            for number in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        began, steps = time.monotonic(), list(steps)
        try:
            while time.monotonic() < began + 60 * minutes and not self.problems:
                if steps and steps[0][0] * 60 * minutes < time.monotonic() - began:
                    share, step = steps.pop(0)
                    print(f"{share:.2f} {step.__name__}", flush=True)
                    step()
                time.sleep(0.1)
        finally:
            self.ends = True
            for thread in threads:
                thread.join()
        assert not self.problems, "\n".join(self.problems[:10])
        assert not steps, "there was no time for all faults"


def tokens_by_source(base):
    name = "terrace_rank_tokens_total"
    return {labels["source"]: value for n, labels, value in samples(base) if n == name}


def report(soak, counted):
    seconds = sorted(soak.seconds)
    total = sum(sum(tokens.values()) for tokens in counted)
    shares = {
        source: round(sum(tokens.get(source, 0) for tokens in counted) / total, 4)
        for source in ["device", "host", "lower", "computed"]
    }
    print(
        json.dumps(
            {
                "answers": soak.answers,
                "history_tokens": total,
                "found_on": shares,
                "p50_ms": round(1000 * seconds[len(seconds) // 2], 2),
                "p99_ms": round(1000 * seconds[len(seconds) * 99 // 100], 2),
            }
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("terrace")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--cached", type=int, default=200)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-redis", action="store_true")
    args = parser.parse_args()
    users = Users(args.users, drawn_seed())
    pages = args.cached * USER_PAGES
    with tempfile.TemporaryDirectory() as model, tempfile.TemporaryDirectory() as disk:
        write_model(model)
        common = ["--device", args.device, "--compute", "f32", "--dtype", "fp32", "--deterministic"]
        options = [*common, "--kv-memory", pages * page_bytes(), "--kv-write-through"]
        options += ["--kv-tier", f"host={2 * pages * page_bytes()}", "--kv-tier-wait", 2000]
        options += ["--kv-tier", f"disk={disk},{8 * pages * page_bytes()}"]
        cluster = None if args.no_redis else RedisCluster()
        try:
            if cluster:
                options += ["--kv-tier", cluster.tier()]
            with (
                TieredServer(args.terrace, model, *common) as fresh,
                TieredServer(args.terrace, model, *options) as server,
            ):
                soak = Soak(users, lambda: server.base, fresh.base)
                counted = []

                def redis_dies():
                    cluster.masters[1].kill()

                def redis_is_back():
                    cluster.masters[1].start()

                def server_is_killed():
                    counted.append(tokens_by_source(server.base))
                    soak.restarting.set()
                    server.kill()
                    server.start()
                    time.sleep(1)
                    soak.restarting.clear()

                steps = [(2 / 3, server_is_killed)]
                if cluster:
                    steps = [(1 / 3, redis_dies), (1 / 2, redis_is_back), *steps]
                soak.run(args.minutes, steps)
                counted.append(tokens_by_source(server.base))
                assert counted[1]["lower"] > 0, "nothing was found on the disk after the restart"
                report(soak, counted)
                removed = ask(server.base, "POST", "/v1/kv_cache/evict_kv_cache", {})
                now = metrics(server.base)
                assert now["terrace_rank_pages_free"] == now["terrace_rank_pages"], now
                assert removed["complete"], removed
        finally:
            if cluster:
                cluster.close()


if __name__ == "__main__":
    main()
