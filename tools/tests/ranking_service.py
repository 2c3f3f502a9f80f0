"""A recommender over HTTP: what is cached changes no score, and what is wrong is refused.

usage: ranking_service.py TERRACE MODEL
"""

import os
import random
import tempfile
import threading

from checks import drawn_seed, equal, metrics, raises, run
from ranked_users import MOST_CANDIDATES, RankedUser, Refused, ask, fresh_logits, logits
from random_ranker import write_model
from redis_cluster import wait_until
from tiered_server import TieredServer

CLIENTS = 200
OPTIONS = ["--threads", 2, "--device", "cpu", "--kv-memory", "8MiB"]


def test_histories_are_cached_appended_listed_and_removed(terrace, model):
    chance = random.Random(drawn_seed())
    with TieredServer(terrace, model, *OPTIONS, "--kv-tier", "host=4MiB") as server:
        base = server.base
        anna = RankedUser("anna", chance)
        anna.items, anna.actions = [1003, 1017, 1040], [1, 0, 8]
        request = anna.request(candidates=7)
        first = ask(base, "POST", "/v1/rank", request)
        equal([result["item"] for result in first["results"]], request["candidates"])
        equal(first["usage"]["cached_tokens"], 0)
        assert all(0 <= p <= 1 for result in first["results"] for p in result["probabilities"])
        again = ask(base, "POST", "/v1/rank", request)
        equal(logits(again), logits(first))
        equal((again["usage"]["cached_tokens"], again["usage"]["history_tokens"]), (8, 8))

        events = {"items": [1050, 1051], "actions": [2, 3]}
        appended = ask(base, "POST", "/v1/users/anna/events", events)
        equal((appended["cached_tokens"], appended["appended"]), (8, 2))
        path = "/v1/users/anna/cache"
        wait_until("events are cached", lambda: ask(base, "GET", path)["cached_tokens"] == 12)
        request["items"] += events["items"]
        request["actions"] += events["actions"]
        grown = ask(base, "POST", "/v1/rank", request)
        equal(grown["usage"]["cached_tokens"], 12)
        equal(logits(grown), fresh_logits(base, request))

        users = ask(base, "GET", "/v1/users?limit=5")["data"]
        equal([(user["user"], user["cached_tokens"]) for user in users], [("anna", 12)])
        info = {"users": ["anna", "nobody"]}
        info = ask(base, "POST", "/v1/kv_cache/get_user_kvdata_info", info)
        equal((info["cached_start_positions"], info["cached_lengths"]), ([0, -1], [12, 0]))
        moved = ask(base, "POST", "/v1/kv_cache/offload_kv_cache", {"users": ["anna"]})
        equal(moved["offloaded_tokens"], [12])
        prepared = ask(base, "POST", "/v1/kv_cache/prepare_kv_cache", {"users": ["anna"]})
        equal(prepared["usage"][0]["cached_tokens"], 12)

        strict = {"user": "anna", "items": [1002], "actions": [4], "start": 20}
        words = "The input sequence has missing tokens from 12 to 19 (both inclusive)."
        error = raises(Refused, [words], lambda: ask(base, "POST", "/v1/kv_cache/append_kvcache", strict))
        equal(error.status, 409)
        words = "The input sequence has overlapping tokens from 10 to 11 (both inclusive)."
        strict["start"] = 10
        raises(Refused, [words], lambda: ask(base, "POST", "/v1/kv_cache/append_kvcache", strict))
        strict["start"] = 12
        done = ask(base, "POST", "/v1/kv_cache/append_kvcache", strict)
        equal((done["usage"]["cached_tokens"], done["usage"]["computed_tokens"]), (12, 2))

        removed = ask(base, "DELETE", path)
        equal((removed["users"], removed["tokens"], removed["complete"]), (1, 14, True))
        equal(ask(base, "GET", "/v1/users")["data"], [])
        ask(base, "POST", "/v1/rank", request)
        evicted = ask(base, "POST", "/v1/kv_cache/evict_kv_cache", {})
        equal((evicted["users"], evicted["tokens"]), (1, 12))
        known = metrics(base)
        assert known["terrace_rank_requests_total"] > 5, known
        assert known["terrace_rank_tokens_total"] > 0, known


def test_wrong_requests_are_refused_with_the_numbers_and_nothing_is_cached(terrace, model):
    chance = random.Random(drawn_seed())
    with TieredServer(terrace, model, *OPTIONS) as server:
        base = server.base
        user = RankedUser("anna", chance)
        user.items, user.actions = [1001, 1002], [3, 4]
        good = user.request(candidates=3)
        for change, parts in [
            ({"actions": [3]}, ["1 actions for 2 items"]),
            ({"context": [1]}, ["takes 2 contextual features", "has 1"]),
            ({"candidates": []}, ["no candidates"]),
            ({"candidates": [1001] * 51}, ["51 candidates", f"up to {MOST_CANDIDATES}"]),
            ({"candidates": [7] * 1_000_000}, ["1000000 candidates", "up to 50"]),
            ({"candidates": [1001] * 1_000_000}, ["longer than 4194304 bytes"]),
            ({"items": [1001, -7]}, ["-7", "not negative"]),
            ({"items": [1001, 1.5]}, ["items must be a list of whole numbers"]),
            ({"items": [1001, "a"]}, ["items must be a list of whole numbers"]),
            ({"items": "a"}, ["items must be a list"]),
            ({"candidates": [5], "strict": True}, ["no id 5", "strict"]),
            ({"user": ""}, ["0 bytes"]),
            ({"user": None}, ["user is missing"]),
            ({"what": 1}, ["unknown field"]),
            ({"timeout_ms": 0}, ["not begun within 0 ms"]),
        ]:
            raises(Refused, parts, lambda: ask(base, "POST", "/v1/rank", good | change))
        nan = {"items": [float("nan"), 1001]}
        raises(Refused, ["not valid JSON"], lambda: ask(base, "POST", "/v1/rank", good | nan))
        error = raises(Refused, ["none"], lambda: ask(base, "POST", "/v1/rank", good | {"model": "none"}))
        equal(error.status, 404)
        equal(ask(base, "GET", "/v1/users")["data"], [])
        unknown = ask(base, "POST", "/v1/rank", good | {"candidates": [5, 1001]})
        equal(unknown["usage"]["unknown_ids"], 1)


def test_the_examples_of_the_document_are_answered(terrace, model):
    with TieredServer(terrace, model, *OPTIONS) as server:
        about = ask(server.base, "GET", "/openapi.json")
        answered = 0
        for path, operations in about["paths"].items():
            post = operations.get("post", {})
            if "Recommenders" not in post.get("tags", []) or path == "/v1/retrieve":
                continue
            schema = post["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            example = about["components"]["schemas"][schema.rsplit("/", 1)[1]]["example"]
            ask(server.base, "POST", path.replace("{user}", "anna"), example)
            answered += 1
        assert answered >= 7, f"only {answered} routes have an example"


def test_items_are_found_and_seen_and_blocked_ones_left_out(terrace, model):
    chance = random.Random(drawn_seed())
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, task="retrieval")
        with TieredServer(terrace, folder, *OPTIONS) as server:
            base = server.base
            user = RankedUser("anna", chance)
            user.items, user.actions = [1003, 1017, 1040], [1, 0, 8]
            request = user.request(candidates=1)
            del request["candidates"]
            found = ask(base, "POST", "/v1/retrieve", request | {"count": 50})["results"]
            items, scores = [it["item"] for it in found], [it["score"] for it in found]
            equal((len(items), scores), (50, sorted(scores, reverse=True)))
            assert not set(items) & set(user.items), "seen items are left out"
            least = ask(base, "POST", "/v1/retrieve", request | {"blocked": items[:2]})
            equal([it["item"] for it in least["results"]], items[2:12])
            # The last item and its action are computed again.
            equal(least["usage"]["cached_tokens"], 6)
            seen = request | {"count": 50, "include_seen": True, "blocked": items}
            seen = ask(base, "POST", "/v1/retrieve", seen)["results"]
            equal(sorted(it["item"] for it in seen if it["item"] in user.items), user.items)
            for change, parts in [
                ({"count": 0}, ["0 items", "1 to 50"]),
                ({"count": 51}, ["51 items", "1 to 50"]),
                ({"items": [], "actions": []}, ["no item"]),
                ({"times": [1, 2, 3]}, ["does not look at times", "3"]),
                ({"candidates": [1001]}, ["unknown field"]),
                ({"blocked": [-1]}, ["-1", "not negative"]),
            ]:
                raises(Refused, parts, lambda: ask(base, "POST", "/v1/retrieve", request | change))
            rank = request | {"candidates": [1001]}
            raises(Refused, ["/v1/retrieve"], lambda: ask(base, "POST", "/v1/rank", rank))
            example = {"user": "ben", "context": [3, 1], "items": [10, 11], "actions": [1, 4]}
            equal(len(ask(base, "POST", "/v1/retrieve", example)["results"]), 10)
            equal(metrics(base)["terrace_rank_retrieved_items_total"], 50 + 10 + 10 + 10)
    with TieredServer(terrace, model, *OPTIONS) as server:
        raises(Refused, ["/v1/rank"], lambda: ask(server.base, "POST", "/v1/retrieve", request))


def test_another_checkpoint_is_served_without_an_interruption(terrace, model):
    chance = random.Random(drawn_seed())
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, seed=1)
        with TieredServer(terrace, folder, *OPTIONS, "--max-staleness", 3600) as server:
            base = server.base
            user = RankedUser("anna", chance)
            user.items, user.actions = [1003, 1017, 1040], [1, 0, 8]
            request = user.request(candidates=5)
            first = ask(base, "POST", "/v1/rank", request)
            same = ask(base, "POST", "/v1/rank/reload", {})
            equal((same["changed"], same["generation"], same["rewarmed_users"]), ("nothing", 0, 0))
            wrong, over = [], threading.Event()

            def client():
                while not over.is_set():
                    try:
                        ask(base, "POST", "/v1/rank", request)
                    except Exception as problem:
                        wrong.append(problem)

            clients = [threading.Thread(target=client) for _ in range(8)]
            for thread in clients:
                thread.start()
            write_model(folder, seed=2)
            changed = ask(base, "POST", "/v1/rank/reload", {})
            over.set()
            for thread in clients:
                thread.join()
            equal(wrong, [])
            equal((changed["changed"], changed["generation"]), ("layers", 1))
            equal(changed["rewarmed_users"], 1)
            path = "/v1/users/anna/cache"
            wait_until("computed again", lambda: ask(base, "GET", path)["cached_tokens"] == 8)
            new = ask(base, "POST", "/v1/rank", request)
            assert logits(new) != logits(first), "the new weights score otherwise"
            equal(logits(new), fresh_logits(base, request))
            equal(metrics(base)["terrace_rank_table_generation"], 1)
            os.remove(f"{folder}/model.safetensors")
            raises(Refused, ["model.safetensors"], lambda: ask(base, "POST", "/v1/rank/reload", {}))
            equal(logits(ask(base, "POST", "/v1/rank", request)), logits(new))


def test_two_hundred_clients_get_the_scores_of_one(terrace, model):
    chance = random.Random(drawn_seed())
    users = [RankedUser(f"user {number}", chance) for number in range(40)]
    for user in users:
        user.grow(60)
    requests = [chance.choice(users).request() for _ in range(CLIENTS)]
    with TieredServer(terrace, model, *OPTIONS, "--kv-tier", "host=4MiB") as server:
        base = server.base
        want = [logits(ask(base, "POST", "/v1/rank", request)) for request in requests]
        ask(base, "POST", "/v1/kv_cache/evict_kv_cache", {})
        wrong = []

        def client(number):
            for round in range(3):
                turn = (number + 7 * round) % CLIENTS
                got = logits(ask(base, "POST", "/v1/rank", requests[turn]))
                if got != want[turn]:
                    wrong.append(turn)

        clients = [threading.Thread(target=client, args=[number]) for number in range(CLIENTS)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        equal(wrong, [])
        answered = metrics(base)["terrace_rank_requests_total"]
        equal(answered, 4 * CLIENTS)


if __name__ == "__main__":
    run(globals(), "TERRACE MODEL")
