"""`terrace serve` as a process that tests kill, start again and read the log of."""

import re
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

from checks import samples

START_SECONDS = 120
STOP_SECONDS = 60


class TieredServer:
    """Use it in a `with`. Its log goes on through restarts. `model` None: it serves tables alone."""

    def __init__(self, terrace, model, *options):
        models = [] if model is None else ["--model", model]
        words = [terrace, "serve", "--port", 0, *models, *options]
        self.command = [str(word) for word in words]
        self.lines = []
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        if self.process.poll() is None:
            self.kill()
        if error is not None:
            print("".join(f"server: {line}" for line in self.lines[-40:]))

    def start(self):
        """Returns when it listens."""
        begun = len(self.lines)
        # What Python ignores stays ignored: a file that may not grow is an error and no signal.
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            restore_signals=False,
        )
        threading.Thread(target=self.lines.extend, args=[self.process.stdout], daemon=True).start()
        deadline = time.monotonic() + START_SECONDS
        while True:
            listening = [line for line in self.lines[begun:] if line.startswith("listening on ")]
            if listening:
                self.base = listening[0].removeprefix("listening on ").strip()
                return
            assert self.process.poll() is None, "it ended before it listened"
            assert time.monotonic() < deadline, f"not listening after {START_SECONDS} s"
            time.sleep(0.02)

    def kill(self):
        """Ends it at once, without a chance to tidy up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Ends it as a service manager does; it copies what it knows to disk and Redis."""
        self.process.terminate()
        status = self.process.wait(STOP_SECONDS)
        assert status == 0, f"it ended with status {status}"

    def tier(self, name, tier):
        """A metric of one tier."""
        name = f"terrace_tier_{name}"
        values = [v for n, labels, v in samples(self.base) if n == name and labels["tier"] == tier]
        assert values, f"there is no {name} of the {tier} tier"
        return sum(values)

    def page_bytes(self):
        """Of one page of keys and values, as it says at its start; a little more."""
        said = re.search(r"pages of \d+ tokens, ([\d.]+) ([KM])iB each", "".join(self.lines))
        assert said, "it does not say how large a page is"
        return round(1.01 * float(said[1]) * {"K": 1 << 10, "M": 1 << 20}[said[2]])

    def limit_files(self, most_bytes):
        """No file of its grows past that: to a process this is a full disk. None: no limit."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        soft = hard if most_bytes is None else most_bytes
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (soft, hard))

    def resident_mib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024
