"""Many connections at once: idle ones are held, active ones all get their responses.

usage: many_connections.py http://HOST:PORT
"""

import asyncio
import json
import resource
import urllib.parse

from checks import equal, run, wait_until_idle

IDLE = 2000
ACTIVE = 200


def post(path, body):
    body = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: terrace\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def ping(reader, writer):
    writer.write(b"GET /ping HTTP/1.1\r\nHost: terrace\r\n\r\n")
    equal(await reader.readline(), b"HTTP/1.1 200 OK\r\n")
    await reader.readuntil(b"Healthy\"}")


async def stream(host, port, number):
    """Reads a short stream to its end, on a connection of its own."""
    reader, writer = await asyncio.open_connection(host, port)
    body = {"prompt": f"{number} and", "stream": True, "max_tokens": 2, "ignore_eos": True}
    writer.write(post("/v1/completions", body))
    await reader.readuntil(b"[DONE]")
    writer.close()


async def crowd(base):
    host, port = urllib.parse.urlsplit(base).hostname, urllib.parse.urlsplit(base).port
    idle = [await asyncio.open_connection(host, port) for _ in range(IDLE)]
    await asyncio.gather(*(stream(host, port, number) for number in range(ACTIVE)))
    for reader, writer in idle:
        await ping(reader, writer)
    for _, writer in idle:
        writer.close()


def test_idle_connections_are_held_while_active_ones_are_answered(base):
    asyncio.run(crowd(base))
    wait_until_idle(base)


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    run(globals())
