"""Users on disk and in a Redis Cluster: found again after a kill, right while Redis fails, and gone
from every level when they are removed.

usage: ranking_tiers.py TERRACE MODEL
"""

import random
import tempfile

from checks import drawn_seed, equal, run
from ranked_users import RankedUser, ask, fresh_logits, logits
from redis_cluster import RedisCluster, wait_until
from tiered_server import TieredServer

# For a few users; a page of 64 tokens has 32 KiB.
OPTIONS = ["--threads", 2, "--device", "cpu", "--kv-memory", "512KiB", "--compute", "f32"]
OPTIONS += ["--kv-write-through", "--kv-tier-wait", 5000, "--kv-tier", "host=512KiB"]
USERS = 30


def asked(base, user):
    """A request, whose scores must be those of nobody cached."""
    request = user.request()
    answer = ask(base, "POST", "/v1/rank", request)
    equal(logits(answer), fresh_logits(base, request))
    return answer["usage"]


def grown_users(chance):
    users = [RankedUser(f"user {number}", chance) for number in range(USERS)]
    for user in users:
        while len(user.items) < 64:
            user.grow()
    return users


def test_killed_servers_find_their_users_on_disk(terrace, model):
    chance = random.Random(drawn_seed())
    users = grown_users(chance)
    with tempfile.TemporaryDirectory() as folder:
        options = [*OPTIONS, "--kv-tier", f"disk={folder},16MiB"]
        with TieredServer(terrace, model, *options) as server:
            for user in users:
                asked(server.base, user)
            wait_until("all is written", lambda: written(server, "disk") >= 2 * USERS)
            server.kill()
            server.start()
            found = [asked(server.base, user)["lower_tokens"] for user in users]
            # Two pages of each history are full; the rest is computed.
            equal(min(found), 128)
            for user in users:
                user.edit()
                asked(server.base, user)
            removed = ask(server.base, "DELETE", "/v1/users/user%203/cache")
            equal([level["name"] for level in removed["levels"]], ["disk"])
            assert removed["complete"] and removed["levels"][0]["records"] >= 2, removed
            server.kill()
            server.start()
            equal(asked(server.base, users[3])["cached_tokens"], 0)
            equal(ask(server.base, "DELETE", "/v1/users/user%203/cache")["complete"], True)


def test_scores_are_right_while_redis_fails_and_removals_reach_it(terrace, model):
    chance = random.Random(drawn_seed())
    users = grown_users(chance)
    with RedisCluster() as cluster:
        with TieredServer(terrace, model, *OPTIONS, "--kv-tier", cluster.tier()) as server:
            for user in users:
                asked(server.base, user)
            wait_until("all is written", lambda: cluster.records() >= 2 * USERS)
            server.kill()
            server.start()
            found = [asked(server.base, user)["lower_tokens"] for user in users]
            assert sum(found) > 64 * USERS, found
            before = cluster.records()
            removed = ask(server.base, "DELETE", "/v1/users/user%205/cache")
            equal((removed["complete"], removed["levels"][0]["name"]), (True, "redis"))
            assert removed["levels"][0]["records"] >= 2, removed
            equal(cluster.records(), before - removed["levels"][0]["records"])

            cluster.masters[1].kill()
            for user in users:
                user.grow()
                asked(server.base, user)
            removed = ask(server.base, "DELETE", "/v1/users/user%207/cache")
            equal(removed["complete"], False)
            cluster.masters[1].start()
            cluster.wait_until_ok()
            wait_until("Redis is used again", lambda: is_complete(server.base))
            for user in users:
                asked(server.base, user)
            evicted = ask(server.base, "POST", "/v1/kv_cache/evict_kv_cache", {})
            equal(evicted["complete"], True)
            equal(cluster.records(), 0)


def is_complete(base):
    return ask(base, "DELETE", "/v1/users/user%207/cache")["complete"]


def written(server, tier):
    return server.tier("written_bytes_total", tier) / (32 << 10)


if __name__ == "__main__":
    run(globals(), "TERRACE MODEL")
