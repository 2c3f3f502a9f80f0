"""The programs that are compared: each measures itself offline, and serves the same client.

A rate is in tokens a second. Offline, the head is computed for the last position of a prompt only,
keys and values are f16, and every run starts after one that is not counted: all of it in both.
"""

import functools
import json
import re
import statistics
import subprocess

from bench.say import Failed, last_lines
from bench.server_process import ServerProcess, free_port


class Terrace:
    name = "terrace"

    def __init__(self, program, model, client):
        self.program, self.model, self.client = program, model, client

    def offline(self, load):
        prefill, decode_deep = self.prefill_and_decode(load, load.prompt_tokens)
        # A prompt of one token is as near to an empty context as a request can be.
        _, decode_empty = self.prefill_and_decode(load, 1)
        return {"prefill": prefill, "decode_empty": decode_empty, "decode_deep": decode_deep}

    def served(self, load, seed):
        port = free_port()
        serve = [self.program, "serve", "--model", self.model, "--device", "cpu"]
        serve += ["--port", str(port), "--threads", str(load.threads)]
        with ServerProcess(serve, port) as server:
            return self.client(server.url, load, seed)

    def prefill_and_decode(self, load, prompt_tokens):
        bench = [self.program, "bench", "llm", "--json", "--device", "cpu", "--batch", "1"]
        bench += ["--model", self.model, "--threads", str(load.threads)]
        bench += ["--prompt-tokens", str(prompt_tokens), "--new-tokens", str(load.new_tokens)]
        [row] = json_of([*bench, "--repeat", str(load.repeats)])["rows"]
        return row["prefill_tokens_per_second"]["median"], row["decode_tokens_per_second"]["median"]

    def describe(self):
        version = text_of([self.program, "--version"]).strip()
        return {"version": version, "arithmetic": "default (--compute fast)"}


class LlamaCpp:
    def __init__(self, build, model, client):
        self.build, self.model, self.client = build, model, client
        self.name = build.name

    def offline(self, load):
        new, prompt = str(load.new_tokens), str(load.prompt_tokens)
        [prefill, decode_empty] = self.bench(load, ["-p", prompt, "-n", new])
        [decode_deep] = self.bench(load, ["-p", "0", "-n", new, "-d", prompt])
        return {"prefill": prefill, "decode_empty": decode_empty, "decode_deep": decode_deep}

    def served(self, load, seed):
        context = load.streams * (load.stream_prompt_tokens + load.new_tokens + 64)
        more = ["-t", str(load.threads), "-np", str(load.streams), "-c", str(context)]
        with self.server([*more, "--cont-batching"]) as server:
            return self.client(server.url, load, seed)

    def server(self, more):
        port = free_port()
        serve = [self.build.folder / "llama-server", "-m", self.model, *more]
        return ServerProcess([*serve, "--host", "127.0.0.1", "--port", str(port)], port)

    def bench(self, load, what):
        program = [self.build.folder / "llama-bench", "-o", "json", "-t", str(load.threads)]
        tests = json_of([*program, "-m", self.model, "-r", str(load.repeats), *what])
        return [statistics.median(test["samples_ts"]) for test in tests]

    @functools.cache
    def describe(self):
        version = text_of([self.build.folder / "llama-server", "--version"])
        said = self.words_at_start()
        features = re.search(r"system_info: .*\| CPU : (.*)", said)
        tiles = re.search(r"AMX model buffer size = +(.*)", said)
        return {
            "version": " ".join(version.removeprefix("version: ").split()),
            "flags": self.build.flags,
            "cpu_features": re.findall(r"(\w+) = 1", features.group(1)) if features else [],
            "weights_packed_for_amx": tiles.group(1) if tiles else "none",
        }

    def words_at_start(self):
        """They name the instruction sets that it uses, at a level that is too wordy to measure."""
        try:
            with self.server(["--log-verbosity", "4"]) as server:
                return server.said()
        except Failed as failure:
            return str(failure)


class Client:
    """One client for all servers, so that its own cost is the same for each."""

    def __init__(self, terrace):
        self.terrace = terrace

    def __call__(self, url, load, seed):
        bench = [self.terrace, "bench", "serve", "--json", "--url", url, "--seed", str(seed)]
        bench += ["--streams", str(load.streams), "--new-tokens", str(load.new_tokens)]
        bench += ["--prompt-tokens", str(load.stream_prompt_tokens)]
        [seen] = json_of(bench)["loads"]
        if seen["failed"] > 0:
            raise Failed(f"{seen['failed']} requests failed, the first: {seen['first_failure']}")
        rates = {"streams": seen["tokens_per_second"]}
        if seen["decode_tokens_per_second"] is not None:
            rates["streams_decoding"] = seen["decode_tokens_per_second"]
        return rates


def json_of(command):
    return json.loads(text_of(command))


def text_of(command):
    """What a program writes; to standard error too if it writes nothing else."""
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if ended.returncode != 0:
        said = last_lines(ended.stderr) or "it said nothing"
        raise Failed(f"{command[0].name} ended with {ended.returncode}: {said}")
    return ended.stdout or ended.stderr
