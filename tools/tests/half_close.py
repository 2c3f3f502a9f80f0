"""Clients that close their side after sending: who waits is answered, who has gone is cancelled.

usage: half_close.py http://HOST:PORT

Clients do not close their side themselves, so they are led through a relay that does.
"""

import contextlib
import http.client
import json
import socket
import subprocess
import threading
import time
import urllib.parse

import httpx
import openai

from checks import equal, model, run, wait_until_idle

# Some seconds of work, so that the server has to find out whether the client is still there.
BODY = {"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "temperature": 0}
# A minute of it.
LONG = {**BODY, "max_tokens": 1500, "n": 8}
# The server looks after a second.
LATE_SECONDS = 1.5

INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


def address(base):
    url = urllib.parse.urlsplit(base)
    return url.hostname, url.port


def request(body):
    body = json.dumps(body).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Relay:
    """Passes one connection on, and closes the sending side once a whole request has gone through."""

    def __init__(self, base):
        self.server = address(base)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.base = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.response = b""
        self.first_seconds = 0.0
        self.thread = threading.Thread(target=self.pass_on)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.thread.join()

    def pass_on(self):
        client, _ = self.listener.accept()
        with client, socket.create_connection(self.server) as server:
            sent = b""
            while not is_whole(sent):
                sent += client.recv(65536)
            server.sendall(sent)
            server.shutdown(socket.SHUT_WR)
            start = time.monotonic()
            while data := server.recv(65536):
                if data != INTERIM and self.first_seconds == 0.0:
                    self.first_seconds = time.monotonic() - start
                self.response += data
                client.sendall(data)


def is_whole(sent):
    head, separator, body = sent.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(separator) and len(body) >= sum(int(line.split(b":")[1]) for line in lengths)


def check(base, ask):
    """Checks that `ask` gets its response through the relay, after interim ones if it is late."""
    with Relay(base) as relay:
        response = ask(relay.base)
    equal(response["usage"]["completion_tokens"], BODY["max_tokens"])
    is_late = relay.first_seconds > LATE_SECONDS
    assert relay.response.startswith(INTERIM) or not is_late, relay.response[:200]
    wait_until_idle(base)


def test_curl(base):
    def ask(base):
        command = ["curl", "--silent", "--show-error", "--fail", "--json", json.dumps(BODY)]
        return json.loads(subprocess.check_output([*command, f"{base}/v1/completions"]))

    check(base, ask)


def test_http_client(base):
    def ask(base):
        connection = http.client.HTTPConnection(*address(base))
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(BODY), headers)
        return json.load(connection.getresponse())

    check(base, ask)


def test_httpx(base):
    check(base, lambda base: httpx.post(f"{base}/v1/completions", json=BODY, timeout=300).json())


def test_openai(base):
    name = model(base)

    def ask(base):
        client = openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=300)
        fields = {name: value for name, value in BODY.items() if name != "ignore_eos"}
        create = client.completions.create
        return create(model=name, extra_body={"ignore_eos": True}, **fields).model_dump()

    check(base, ask)


def test_a_stream(base):
    body = {**BODY, "max_tokens": 20, "stream": True}
    with Relay(base) as relay:
        response = httpx.post(f"{relay.base}/v1/completions", json=body, timeout=300).text
    assert response.endswith("data: [DONE]\n\n"), response
    wait_until_idle(base)


def test_a_client_that_has_gone_is_cancelled(base):
    for body in [LONG, {**LONG, "stream": True}]:
        with contextlib.closing(socket.create_connection(address(base))) as connection:
            connection.sendall(request(body))
        wait_until_idle(base, seconds=15)


if __name__ == "__main__":
    run(globals())
