"""What the client tests share: the client, running `test_*` functions, and reading the metrics.

A script calls `run(globals())`; each test gets the server's address as its only argument, or what else
the script is given.
"""

import functools
import inspect
import json
import math
import os
import random
import re
import sys
import threading
import time
import traceback
import urllib.request

# A test that takes longer than this says every so often what the server does meanwhile.
LONG_TEST_SECONDS = 60


def run(names, usage="http://HOST:PORT"):
    """Runs every test_* function with the arguments of the command line, and exits."""
    if len(sys.argv) != 1 + len(usage.split()):
        sys.exit(f"usage: {sys.argv[0]} {usage}")
    tests = [f for name, f in names.items() if name.startswith("test_") and inspect.isfunction(f)]
    failed = 0
    for test in tests:
        is_over = threading.Event()
        threading.Thread(target=watch, args=(test.__name__, is_over), daemon=True).start()
        try:
            test(*sys.argv[1:])
            print(f"ok {test.__name__}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {test.__name__}", flush=True)
            traceback.print_exc(file=sys.stdout)
        is_over.set()
    print(f"{len(tests) - failed} of {len(tests)} passed", flush=True)
    sys.exit(1 if failed else 0)


def watch(name, is_over):
    """Prints where a test is that takes long, and what the server does."""
    main = threading.main_thread().ident
    while not is_over.wait(LONG_TEST_SECONDS):
        lines = traceback.extract_stack(sys._current_frames()[main])
        line = next((line for line in reversed(lines) if line.name == name), lines[-1])
        print(f"still in {name}, line {line.lineno}: {line.line}", flush=True)
        for base in (argument for argument in sys.argv[1:] if argument.startswith("http")):
            try:
                now = metrics(base, timeout=10)
            except OSError as error:
                print(f"  {base} gives no metrics: {error}", flush=True)
                continue
            parts = "requests_", "pages", "tokens_total", "steps"
            shown = {key: now[key] for key in sorted(now) if any(part in key for part in parts)}
            print(f"  {base}: {shown}", flush=True)


@functools.cache
def client(base):
    # Here, for scripts without it run where the package is not.
    import openai

    return openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=300)


@functools.cache
def model(base):
    return client(base).models.list().data[0].id


def drawn_seed():
    """The seed of a run: TERRACE_TEST_SEED, or a new one; printed, so that the run can be repeated."""
    seed = int(os.environ.get("TERRACE_TEST_SEED", random.randrange(1 << 32)))
    print(f"TERRACE_TEST_SEED={seed}")
    return seed


def equal(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def close(got, want, tolerance):
    assert math.isclose(got, want, abs_tol=tolerance), f"got {got}, want {want} +- {tolerance}"


def raises(kind, parts, call):
    """Checks that `call` fails with an error of `kind` whose message has all `parts`."""
    try:
        call()
    except kind as error:
        for part in parts:
            assert part in str(error), f"{part!r} is not in {error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


def samples(base, timeout=60):
    """The server's metrics: name, labels and value of each."""
    with urllib.request.urlopen(f"{base}/metrics", timeout=timeout) as response:
        lines = response.read().decode().splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            name, _, labels = name.partition("{")
            yield name, dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)


def metrics(base, timeout=60):
    """The server's metrics, summed over their labels."""
    values = {}
    for name, _, value in samples(base, timeout):
        values[name] = values.get(name, 0.0) + value
    return values


def fill_pool(base):
    """Touches nearly every page once: the pool is taken at start, but is in RAM only when used."""
    with urllib.request.urlopen(f"{base}/tokenizer_info") as response:
        longest = json.load(response)["model_max_length"] - 1
    for first in range(100):
        now = metrics(base)
        if now["terrace_kv_cache_pages_cached"] > 0.95 * now["terrace_kv_cache_pages"]:
            return
        ids = [3 + (first + number) % 100 for number in range(min(7_000, longest))]
        client(base).completions.create(model=model(base), prompt=ids, max_tokens=1)
    raise AssertionError(f"a hundred prompts did not fill the pool: {metrics(base)}")


def resident_mib(base):
    """The server's memory in RAM."""
    return metrics(base)["process_resident_memory_bytes"] / 2**20


def delete_handles(base, seconds=60):
    """Deletes all KV caches that are kept by name: they hold pages while nobody runs.

    Clients that left may just have had one made, which the server lets go by itself: so it goes on
    until pages are free.
    """
    route = f"{base}/v1/kv_cache/handles"
    deadline = time.monotonic() + seconds
    while True:
        with urllib.request.urlopen(route) as response:
            handles = json.load(response)["data"]
        for handle in handles:
            request = urllib.request.Request(f"{route}/{handle['id']}", method="DELETE")
            urllib.request.urlopen(request).close()
        now = metrics(base)
        is_free = now["terrace_kv_cache_pages_free"] == now["terrace_kv_cache_pages"]
        if (not handles and is_free) or deadline < time.monotonic():
            return
        time.sleep(0.05)


def wait_until_idle(base, seconds=60):
    """Waits until no sequence runs or waits; then every page must be free."""
    deadline = time.monotonic() + seconds
    while True:
        now = metrics(base)
        if now["terrace_requests_running"] == 0 and now["terrace_requests_waiting"] == 0:
            equal(now["terrace_kv_cache_pages_free"], now["terrace_kv_cache_pages"])
            assert now["terrace_kv_cache_pages"] > 0, "the pool has no pages"
            return now
        assert time.monotonic() < deadline, f"still busy after {seconds} s: {now}"
        time.sleep(0.05)
