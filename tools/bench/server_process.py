"""A server that runs while it is measured."""

import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from bench.say import Failed, last_lines

START_SECONDS = 120
STOP_SECONDS = 20


class ServerProcess:
    def __init__(self, command, port):
        self.command, self.url = command, f"http://127.0.0.1:{port}"

    def __enter__(self):
        self.log = tempfile.NamedTemporaryFile(mode="w", suffix=".log")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        try:
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def said(self):
        return Path(self.log.name).read_text(errors="replace")

    def wait_until_ready(self):
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise Failed(f"{self.command[0].name} ended at once:\n{last_lines(self.said())}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise Failed(f"{self.command[0].name} did not get ready in {START_SECONDS} seconds")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
