"""Every field of every route with values that nobody means well, against the real server.

usage: hostile_requests.py http://HOST:PORT

All are answered in time: with an output, or with a refusal that is a JSON error. None is the
server's own failure, and afterwards pages and memory are back.
"""

import http.client
import json
import os
import random
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import hostile_bodies
from checks import delete_handles, drawn_seed, fill_pool, resident_mib, run, wait_until_idle

# A refusal may wait behind other requests of the sixteen clients; it never takes minutes. An
# output, which some of the bodies get, takes its time.
REFUSAL_SECONDS = 20
OUTPUT_SECONDS = 180
CLIENTS = 16
# Of bodies with a single wrong field: all of them take minutes, and each run draws others.
SHARE = float(os.environ.get("TERRACE_HOSTILE_SHARE", "0.25"))
ALLOWED = {200, 201, 400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 501, 503, 504, 507}
MEMORY_MIB = 150


class Client:
    """One connection, opened anew when the server has closed it."""

    def __init__(self, base):
        self.address = urlsplit(base).netloc
        self.connection = None

    def post(self, path, body):
        headers = {"content-type": "application/json"}
        for fresh in (False, True):
            if self.connection is None or fresh:
                self.connection = http.client.HTTPConnection(self.address, timeout=OUTPUT_SECONDS)
            try:
                self.connection.request("POST", path, body.encode("utf-8", "surrogatepass"), headers)
                response = self.connection.getresponse()
                return response.status, response.read()
            except (http.client.RemoteDisconnected, ConnectionError):
                # An idle connection may be closed just now; a fresh one may not.
                if fresh:
                    raise


def problem(path, what, body, client):
    started = time.monotonic()
    try:
        status, response = client.post(path, body)
    except Exception as error:  # whatever it is, the request was not answered
        client.connection = None
        return f"{path} {what}: {error!r} after {time.monotonic() - started:.1f} s"
    seconds = time.monotonic() - started
    if status not in ALLOWED:
        return f"{path} {what}: status {status}: {response[:300]!r}"
    if status not in (200, 201) and seconds > REFUSAL_SECONDS:
        return f"{path} {what}: refused after {seconds:.1f} s"
    if status not in (200, 201):
        try:
            error = json.loads(response)["error"]
            message = error if isinstance(error, str) else error["message"]
        except (ValueError, KeyError, TypeError) as wrong:
            return f"{path} {what}: status {status} without a JSON error ({wrong!r}): {response[:300]!r}"
        words = ["expected usize", "expected u32", "expected f32", "struct ", "untagged enum", "invalid type"]
        if found := [word for word in words if word in message]:
            return f"{path} {what}: the message speaks of {found}: {message[:200]}"
    return None


def test_no_body_breaks_the_server(base):
    seed = drawn_seed()
    document = json.load(urllib.request.urlopen(f"{base}/openapi.json"))
    cases = []
    for number, (path, (good, fields)) in enumerate(hostile_bodies.routes(document).items()):
        assert good is not None, f"{path} has no example"
        hostile = hostile_bodies.bodies(good, fields, SHARE, seed + number)
        cases.extend((path, what, body) for what, body in hostile)
    cases.extend(hostile_bodies.heavy())
    random.Random(seed).shuffle(cases)
    fill_pool(base)
    before = resident_mib(base)

    def work(client_number):
        client = Client(base)
        found = (problem(*case, client) for case in cases[client_number::CLIENTS])
        return [text for text in found if text]

    with ThreadPoolExecutor(CLIENTS) as pool:
        problems = [text for found in pool.map(work, range(CLIENTS)) for text in found]
    print(f"{len(cases)} bodies, {len(problems)} problems")
    assert not problems, "\n".join(problems[:40])
    delete_handles(base)
    wait_until_idle(base)
    time.sleep(10)
    after = resident_mib(base)
    print(f"resident: {before:.0f} MiB before, {after:.0f} MiB after")
    assert after < before + MEMORY_MIB, f"{before:.0f} MiB before, {after:.0f} MiB ten seconds after"


if __name__ == "__main__":
    run(globals())
