"""Long runs that the ordinary tests have a short form of: hours of hostile and ordinary clients.

usage: torture.py [--terrace PATH] [--seconds 7200] [--p99 1.5]

Starts a server, lets `tools/tests/hostile_requests.py` try every value of every field, then
`tools/tests/mixed_traffic.py` for the given time. Ends with status 1 if either fails.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent / "tests"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--terrace", default="target/release/terrace", help="the program")
    parser.add_argument("--seconds", type=float, default=7200, help="of mixed traffic")
    parser.add_argument("--p99", type=float, default=1.5, help="most growth of ordinary p99")
    args = parser.parse_args()
    server = subprocess.Popen(
        [args.terrace, "serve", "--port", "0", "--log-level", "warn"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        base = next(
            line.split("listening on ")[1].strip()
            for line in server.stdout
            if line.startswith("listening on ")
        )
        environment = {
            **os.environ,
            "TERRACE_HOSTILE_SHARE": "1",
            "TERRACE_TRAFFIC_SECONDS": str(args.seconds),
            "TERRACE_TRAFFIC_P99": str(args.p99),
        }
        scripts = ["hostile_requests.py", "mixed_traffic.py"]
        ended = [
            subprocess.run([sys.executable, "-B", TESTS / script, base], env=environment)
            for script in scripts
        ]
        assert server.poll() is None, f"the server ended by itself: {server.poll()}"
    finally:
        server.terminate()
        server.wait()
    sys.exit(any(run.returncode for run in ended))


if __name__ == "__main__":
    main()
