#!/usr/bin/env python3
"""Rank and retrieve with every kind of recommender on two devices, and compare what they give.

    tools/compare_devices.py target/release/terrace cpu cuda:0

Models are tiny and have random weights; histories grow from request to request, so that most of
them are cached. Everything is computed in f32.
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "tests"))

from random_ranker import write_model, write_sequential  # noqa: E402

MOST = 1e-4


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    terrace, devices = sys.argv[1], sys.argv[2:]
    failed = 0
    for name, write, command, requests in [
        ("ranking", lambda folder: write_model(folder), "score", rankings),
        ("ranking with mlps", lambda folder: write_model(folder, mlps=True), "score", rankings),
        ("retrieval", lambda folder: write_model(folder, task="retrieval"), "retrieve", findings),
        ("sequential", write_sequential, "retrieve", timed_findings),
    ]:
        with tempfile.TemporaryDirectory() as folder:
            write(folder)
            lines = [json.dumps(request) for request in requests(random.Random(7))]
            file = Path(folder, "requests.jsonl")
            file.write_text("\n".join(lines))
            answers = [answer(terrace, command, file, folder, device) for device in devices]
            apart = max(difference(one, other) for one, other in zip(*answers))
            cached = sum(line["cached_tokens"] for line in answers[0])
            verdict = "ok" if apart <= MOST else "WRONG"
            failed += verdict != "ok"
            counts = f"{len(lines)} requests, {cached} tokens cached"
            print(f"{name:20} {counts}, {apart:.1e}  {verdict}")
    sys.exit(failed)


def answer(terrace, command, file, model, device):
    options = ["--model", model, "--device", device, "--f32"]
    done = subprocess.run(
        [terrace, "rank", command, file, *options], check=True, capture_output=True, text=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def difference(one, other):
    """The largest of two answers."""
    if "scores" in one:
        numbers = [[x for it in line["scores"] for x in it["logits"]] for line in (one, other)]
    else:
        numbers = [[it["score"] for it in line["items"]] for line in (one, other)]
        # Neighbours whose scores are almost equal may be in another order.
        items = [[it["item"] for it in line["items"]] for line in (one, other)]
        if len(set(items[0]) ^ set(items[1])) > 2:
            return float("inf")
    if len(numbers[0]) != len(numbers[1]) or one["cached_tokens"] != other["cached_tokens"]:
        return float("inf")
    return max(abs(a - b) / max(abs(b), 1) for a, b in zip(*numbers))


def histories(chance, first_item=1000, most=90):
    """Six users, whose histories grow in turn."""
    users = [{"user": f"user {user}", "items": [], "actions": []} for user in range(6)]
    for _ in range(40):
        user = chance.choice(users)
        for _ in range(1 + chance.randrange(12)):
            if len(user["items"]) < most:
                user["items"].append(first_item + chance.randrange(1, 60))
                user["actions"].append(chance.randrange(9))
        yield user


def rankings(chance):
    for user in histories(chance):
        candidates = [1000 + chance.randrange(60) for _ in range(1 + chance.randrange(50))]
        yield user | {"context": [3, 1], "candidates": candidates}


def findings(chance):
    for user in histories(chance):
        yield user | {"context": [2, 5], "count": 20, "blocked": [1000 + chance.randrange(60)]}


def timed_findings(chance):
    for user in histories(chance, first_item=0, most=40):
        times = [1_000_000 + 977 * at * at for at in range(len(user["items"]))]
        request = {"user": user["user"], "items": list(user["items"]), "count": 20}
        yield request | {"times": times, "time": times[-1] + 60}


if __name__ == "__main__":
    main()
