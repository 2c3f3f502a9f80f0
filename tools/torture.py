"""Long runs that the ordinary tests have a short form of.

usage: torture.py [clients] [--terrace PATH] [--seconds 7200] [--p99 1.5]
       torture.py kill-servers [--terrace PATH] [--kills 200]
       torture.py soak-tiers [--terrace PATH] [--minutes 60] [--device cuda:0] [--no-redis]
       torture.py soak-users [--terrace PATH] [--minutes 10] [--device cuda:0] [--no-redis]
       torture.py parameter-servers [--histories 50] [--schedules 20] [--kills 200] [--seed 1]

clients: starts a server, lets `tools/tests/hostile_requests.py` try every value of every field, then
`tools/tests/mixed_traffic.py` for the given time.
kill-servers: `tools/tests/killed_servers.py`, with more kills and the default model.
soak-tiers: `tools/tests/soak_tiers.py`, all tiers and random faults for the given time.
soak-users: `tools/tests/soak_users.py`, a recommender's users over all tiers, killed on the way.
parameter-servers: the tests of `crates/embedding` that draw lots, with larger numbers: histories of
every combination of levels, schedules of faults, kills.

Ends with status 1 if anything fails.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent / "tests"
MODEL = "smollm2-135m-instruct"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    runs = {"clients": clients, "kill-servers": kill_servers, "soak-tiers": soak_tiers}
    runs |= {"soak-users": soak_users, "parameter-servers": parameter_servers}
    parser.add_argument("run", nargs="?", default="clients", choices=runs, help="what to run")
    parser.add_argument("--terrace", default="target/release/terrace", help="the program")
    parser.add_argument("--seconds", type=float, default=7200, help="clients: of mixed traffic")
    parser.add_argument("--p99", type=float, default=1.5, help="clients: most growth of p99")
    parser.add_argument("--kills", type=int, default=200, help="of servers: how often")
    parser.add_argument("--histories", type=int, default=50, help="parameter-servers: times longer")
    parser.add_argument("--schedules", type=int, default=20, help="parameter-servers: how many")
    parser.add_argument("--seed", type=int, default=1, help="parameter-servers: of the lots")
    parser.add_argument("--minutes", type=float, default=60, help="soaks: how long")
    parser.add_argument("--device", default="cpu", help="soaks: cpu, or cuda:0")
    parser.add_argument("--no-redis", action="store_true", help="soaks: host and disk only")
    args = parser.parse_args()
    sys.exit(any(run.returncode for run in runs[args.run](args)))


def clients(args):
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
            "TERRACE_HOSTILE_SHARE": "1",
            "TERRACE_TRAFFIC_SECONDS": str(args.seconds),
            "TERRACE_TRAFFIC_P99": str(args.p99),
        }
        scripts = ["hostile_requests.py", "mixed_traffic.py"]
        ended = [script(name, [base], environment) for name in scripts]
        assert server.poll() is None, f"the server ended by itself: {server.poll()}"
    finally:
        server.terminate()
        server.wait()
    return ended


def kill_servers(args):
    return [script("killed_servers.py", [args.terrace, MODEL], {"TERRACE_KILLS": str(args.kills)})]


def soak_tiers(args):
    options = ["--model", MODEL, "--minutes", str(args.minutes), "--device", args.device]
    options += ["--no-redis"] if args.no_redis else []
    return [script("soak_tiers.py", [args.terrace, *options], {})]


def soak_users(args):
    options = ["--minutes", str(args.minutes), "--device", args.device]
    options += ["--no-redis"] if args.no_redis else []
    return [script("soak_users.py", [args.terrace, *options], {})]


def parameter_servers(args):
    environment = {
        "TERRACE_HISTORIES": str(args.histories),
        "TERRACE_SCHEDULES": str(args.schedules),
        "TERRACE_KILLS": str(args.kills),
        "TERRACE_SEED": str(args.seed),
    }
    cargo = os.environ.get("CARGO", "cargo")
    tests = [cargo, "test", "--release", "--locked", "-p", "terrace-embedding", "--test", "it", "--"]
    names = ["server_histories", "server_schedules", "server_killed"]
    everything = {**os.environ, **environment}
    ended = [subprocess.run([*tests, "--nocapture", *names], env=everything)]
    everything["TERRACE_TEST_BROKER"] = str(real_broker(cargo))
    ended += [subprocess.run([*tests, "--ignored", "server_real_broker"], env=everything)]
    return ended


def real_broker(cargo):
    """Builds a broker that is no part of the ordinary build, once."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", "target")).absolute() / "real-broker"
    program = folder / "bin" / "tansu"
    if not program.exists():
        install = [cargo, "install", "tansu", "--version", "0.6.0", "--root", folder]
        install += ["--no-default-features", "--features", "dynostore"]
        subprocess.run(install, check=True)
    return program


def script(name, arguments, environment):
    command = [sys.executable, "-B", TESTS / name, *arguments]
    return subprocess.run(command, env={**os.environ, **environment})


if __name__ == "__main__":
    main()
