"""HTTP/2 over TLS: one connection, many requests.

usage: http2.py https://HOST:PORT     (with SSL_CERT_FILE naming its certificate)
"""

import asyncio
import json
import os
import socket
import ssl
import time
import urllib.parse

import h2.connection
import h2.errors
import httpx

from checks import equal, run

STREAMS = 32


def client(base, **options):
    context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    return httpx.AsyncClient(base_url=base, http2=True, verify=context, timeout=300, **options)


def body(**fields):
    return {"prompt": "Once", "temperature": 0, "max_tokens": 12, "ignore_eos": True, **fields}


async def text_of_stream(http, **fields):
    text = ""
    async with http.stream("POST", "/v1/completions", json=body(stream=True, **fields)) as response:
        equal((response.status_code, response.http_version), (200, "HTTP/2"))
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                text += json.loads(line[6:])["choices"][0]["text"]
    return text


async def busy(http):
    """How many requests run or wait; where there are none, every page must be free."""
    lines = (await http.get("/metrics")).text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    read = lambda name: sum(float(v) for k, v in values.items() if k.split("{")[0] == name)
    requests = read("terrace_requests_running") + read("terrace_requests_waiting")
    if requests == 0:
        equal(read("terrace_kv_cache_pages_free"), read("terrace_kv_cache_pages"))
    return requests


async def wait_until_idle(http, seconds=15):
    deadline = time.monotonic() + seconds
    while await busy(http):
        assert time.monotonic() < deadline, f"still busy after {seconds} s"
        await asyncio.sleep(0.05)


def test_whole_and_streamed_responses_agree(base):
    async def check():
        async with client(base) as http:
            whole = await http.post("/v1/completions", json=body())
            equal((whole.status_code, whole.http_version), (200, "HTTP/2"))
            equal(await text_of_stream(http), whole.json()["choices"][0]["text"])

    asyncio.run(check())


def test_many_streams_share_a_connection(base):
    async def check():
        one = httpx.Limits(max_connections=1)
        async with client(base, limits=one) as http:
            want = await text_of_stream(http)
            texts = await asyncio.gather(*(text_of_stream(http) for _ in range(STREAMS)))
            equal(texts, [want] * STREAMS)

    asyncio.run(check())


def test_a_stream_that_is_reset_is_cancelled(base):
    """httpx never resets a stream, so this speaks HTTP/2 itself."""
    url = urllib.parse.urlsplit(base)
    context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    context.set_alpn_protocols(["h2"])
    pseudo = [(":method", "POST"), (":scheme", "https"), (":path", "/v1/completions")]
    headers = [*pseudo, (":authority", url.netloc), ("content-type", "application/json")]

    async def check():
        with socket.create_connection((url.hostname, url.port)) as plain:
            connection = context.wrap_socket(plain, server_hostname=url.hostname)
            equal(connection.selected_alpn_protocol(), "h2")
            http = h2.connection.H2Connection()
            http.initiate_connection()
            for stream, is_streamed in [(1, False), (3, True)]:
                long = body(max_tokens=1500, n=8, stream=is_streamed)
                http.send_headers(stream, headers)
                http.send_data(stream, json.dumps(long).encode(), end_stream=True)
                connection.sendall(http.data_to_send())
                await asyncio.sleep(1)
                async with client(base) as other:
                    assert await busy(other), "the request has ended by itself"
                    http.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
                    connection.sendall(http.data_to_send())
                    await wait_until_idle(other)

    asyncio.run(check())


def test_mistakes_are_refused_in_json(base):
    async def check():
        async with client(base) as http:
            for response, status in [
                (await http.get("/" + "a" * 9000), 414),
                (await http.get("/nowhere"), 404),
                (await http.post("/v1/completions", json={"prompt": 1}), 400),
                (await http.post("/v1/completions", content=b" " * (5 << 20),
                                 headers={"content-type": "application/json"}), 413),
            ]:
                equal((response.status_code, response.http_version), (status, "HTTP/2"))
                equal(response.json()["error"]["type"], "invalid_request_error")

    asyncio.run(check())


def test_http_1_is_still_spoken(base):
    response = httpx.get(f"{base}/ping", verify=ssl.create_default_context())
    equal((response.status_code, response.http_version), (200, "HTTP/1.1"))


if __name__ == "__main__":
    run(globals())
