"""Ordinary and hostile clients side by side, on 500 connections, for a while.

usage: mixed_traffic.py http://HOST:PORT

TERRACE_TRAFFIC_SECONDS says how long (120); the first fifth is ordinary traffic alone, which the
rest is compared with in the report. Everything is answered, and afterwards pages and memory are
back. With TERRACE_TRAFFIC_P99 the ordinary requests' p99 may grow by that factor at most.
"""

import asyncio
import json
import os
import random
import time
import urllib.request
from urllib.parse import urlsplit

import hostile_bodies
from checks import delete_handles, drawn_seed, fill_pool, metrics, resident_mib, run, wait_until_idle

SECONDS = float(os.environ.get("TERRACE_TRAFFIC_SECONDS", "120"))
P99_FACTOR = os.environ.get("TERRACE_TRAFFIC_P99")
CONNECTIONS = 500
# Ordinary requests come at a steady pace, so that both phases ask for the same work.
ORDINARY = 8
ORDINARY_PAUSE = 0.2
HOSTILE = 12
HOSTILE_PAUSE = 0.5
# Of hostile requests: bodies of megabytes, and grammars that are slow to compile.
HEAVY_SHARE = 0.02
DEADLINE_SECONDS = 60
ALLOWED = {200, 201, 400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 501, 503, 504, 507}
MEMORY_MIB = 150


async def request(address, path, body, leave_after=None):
    """Status and body; `None` if the client leaves after so many seconds."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {address[0]}\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        try:
            response = await asyncio.wait_for(reader.read(-1), leave_after or DEADLINE_SECONDS)
        except asyncio.TimeoutError:
            if leave_after:
                return None
            raise AssertionError(f"{path} was not answered within {DEADLINE_SECONDS} s") from None
        head, _, body = response.partition(b"\r\n\r\n")
        return int(head.split()[1]), body
    finally:
        writer.close()


def ordinary_body(chance):
    word = chance.choice(["river", "mountain", "city", "bird", "book"])
    return json.dumps({
        "prompt": f"A short story about a {word}:",
        "max_tokens": 8,
        "temperature": 0,
        "ignore_eos": True,
    }).encode()


async def ordinary(address, until, chance, seconds, problems):
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            status, body = await request(address, "/v1/completions", ordinary_body(chance))
            if status != 200:
                problems.append(f"an ordinary request got {status}: {body[:200]!r}")
        except (AssertionError, OSError) as error:
            problems.append(f"an ordinary request: {error!r}")
        seconds.append(time.monotonic() - began)
        await asyncio.sleep(ORDINARY_PAUSE)


async def hostile(address, until, chance, cases, heavy, counts, problems):
    while time.monotonic() < until:
        is_heavy = chance.random() < HEAVY_SHARE
        path, what, body = chance.choice(heavy if is_heavy else cases)
        leave_after = chance.uniform(0.01, 1) if chance.random() < 0.3 else None
        try:
            response = await request(address, path, body, leave_after)
        except (AssertionError, OSError) as error:
            # A server may close while a long body is on its way.
            if not isinstance(error, ConnectionError):
                problems.append(f"{path} {what}: {error!r}")
            response = None
        counts["left" if response is None else "answered"] += 1
        if response and response[0] not in ALLOWED:
            problems.append(f"{path} {what}: status {response[0]}: {response[1][:200]!r}")
        await asyncio.sleep(HOSTILE_PAUSE)


async def idle(address, until):
    """Opens a connection, sends half a head, and waits until the server or the test ends it."""
    while time.monotonic() < until:
        try:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: a\r\n")
            left = max(0.1, until - time.monotonic())
            try:
                await asyncio.wait_for(reader.read(-1), left)
            except asyncio.TimeoutError:
                pass
            writer.close()
        except OSError:
            await asyncio.sleep(1)


def p99(seconds):
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * 0.99))]


async def traffic(address, cases, heavy, seed):
    chance = random.Random(seed)
    problems, counts = [], {"answered": 0, "left": 0}
    alone, beside = [], []
    began = time.monotonic()
    until = began + SECONDS / 5
    await asyncio.gather(*[ordinary(address, until, chance, alone, problems) for _ in range(ORDINARY)])
    until = began + SECONDS
    tasks = [ordinary(address, until, chance, beside, problems) for _ in range(ORDINARY)]
    tasks += [hostile(address, until, chance, cases, heavy, counts, problems) for _ in range(HOSTILE)]
    tasks += [idle(address, until) for _ in range(CONNECTIONS - ORDINARY - HOSTILE)]
    await asyncio.gather(*tasks)
    return problems, counts, alone, beside


def test_hostile_clients_do_not_disturb_others(base):
    seed = drawn_seed()
    document = json.load(urllib.request.urlopen(f"{base}/openapi.json"))
    cases = []
    for number, (path, (good, fields)) in enumerate(hostile_bodies.routes(document).items()):
        for what, body in hostile_bodies.bodies(good, fields, 0.2, seed + number):
            cases.append((path, what, body.encode("utf-8", "surrogatepass")))
    heavy = [(path, what, body.encode()) for path, what, body in hostile_bodies.heavy()]
    parts = urlsplit(base)
    address = (parts.hostname, parts.port)
    fill_pool(base)
    before = resident_mib(base)
    problems, counts, alone, beside = asyncio.run(traffic(address, cases, heavy, seed))
    delete_handles(base)
    wait_until_idle(base)
    time.sleep(10)
    after = resident_mib(base)
    report = {
        "hostile": counts,
        "ordinary": len(alone) + len(beside),
        "p99_alone_s": round(p99(alone), 3),
        "p99_beside_s": round(p99(beside), 3),
        "resident_mib": [round(before), round(after)],
        "tokens": metrics(base)["terrace_generation_tokens_total"],
    }
    print(json.dumps(report))
    assert not problems, "\n".join(problems[:40])
    assert after < before + MEMORY_MIB, report
    if P99_FACTOR:
        assert p99(beside) <= float(P99_FACTOR) * p99(alone), report


if __name__ == "__main__":
    run(globals())
