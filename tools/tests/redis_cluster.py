"""A real Redis Cluster of three masters on free ports of this machine, and what can go wrong with it.

Masters have no replicas and write nothing to a disk: one that comes back is empty.
"""

import contextlib
import signal
import socket
import subprocess
import tempfile
import time

# How long to wait for servers to do what they must. They need a few seconds at most.
PATIENCE_SECONDS = 60
# Nodes call another one failed after so long without a word from it.
NODE_TIMEOUT_MS = 2000


class RedisMaster:
    def __init__(self, folder, options):
        self.folder, self.options, self.port = folder, options, free_port()
        self.start()

    def start(self):
        command = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "no", "--loglevel", "warning", "--dir", self.folder]
        command += ["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS]
        command += ["--cluster-config-file", f"nodes-{self.port}.conf", *self.options]
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
        wait_until("a Redis server answers", lambda: self.command("PING") == "PONG")

    def command(self, *words):
        """What redis-cli prints; "" when it gets no answer."""
        command = ["redis-cli", "-p", self.port, *words]
        return subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=30
        ).stdout.strip()

    def info(self, section, name):
        lines = self.command("INFO", section).splitlines()
        return next(line.split(":")[1] for line in lines if line.startswith(f"{name}:"))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


class RedisCluster(contextlib.ExitStack):
    """Use it in a `with`; `options` go to every master."""

    def __init__(self, *options):
        super().__init__()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.masters = []
        self.callback(lambda: [master.kill() for master in self.masters])
        try:
            for _ in range(3):
                self.masters.append(RedisMaster(folder, options))
            nodes = [f"127.0.0.1:{master.port}" for master in self.masters]
            create = ["redis-cli", "--cluster", "create", *nodes, "--cluster-yes"]
            created = subprocess.run(create, capture_output=True, text=True, timeout=60)
            assert created.returncode == 0, created.stdout + created.stderr
            self.wait_until_ok()
        except BaseException:
            self.close()
            raise

    def tier(self):
        """The value of --kv-tier that names the first master, which names the others."""
        return f"redis=127.0.0.1:{self.masters[0].port}"

    def wait_until_ok(self):
        """Every master knows that all slots are served."""

        def is_ok(master):
            info = master.command("CLUSTER", "INFO")
            return "cluster_state:ok" in info and "cluster_known_nodes:3" in info

        wait_until("the cluster is ok", lambda: all(map(is_ok, self.masters)))

    def records(self):
        return sum(int(master.command("DBSIZE")) for master in self.masters)

    def empty(self):
        for master in self.masters:
            master.command("FLUSHALL")

    def slow_down(self, milliseconds):
        """Answers of every master wait for so long."""
        for master in self.masters:
            master.command("CLIENT", "PAUSE", milliseconds, "ALL")


def wait_until(what, holds):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s until {what}"
        time.sleep(0.05)


def free_port():
    """One whose second port, on which nodes of a cluster talk to each other, is free too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            if port + 10_000 < 65_536 and second.connect_ex(("127.0.0.1", port + 10_000)) != 0:
                return port
