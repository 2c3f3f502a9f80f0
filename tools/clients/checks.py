"""What the scripts of this folder share. A script names its client and calls `run(globals())`; each
`check_*` function gets the server's address (http://HOST:PORT) as its only argument."""

import inspect
import sys
import traceback
from importlib.metadata import version

# What the scripted model outputs, and the function it calls with it.
PERSON = {"name": "Ann", "age": 7}
SECOND_PERSON = {"name": "Bob", "age": 8}
TEXT = '{"name":"Ann","age":7}'
MODEL = "scripted"
QUESTION = [{"role": "user", "content": "Who is it?"}]


def run(names, package):
    """Runs every check against the server that the command line names; a line for each."""
    base = sys.argv[1]
    checks = [f for name, f in names.items() if name.startswith("check_") and inspect.isfunction(f)]
    failed = 0
    for check in checks:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        failed += not one(package, name, lambda: check(base))
    sys.exit(1 if failed or not checks else 0)


def one(package, name, check):
    """Runs one check and says how it went."""
    client = f"{package} {version(package)}"
    try:
        check()
    except Exception as error:
        reason = " ".join(str(error).split())[:400]
        print(f"FAILED {client}: {name}: {type(error).__name__}: {reason}", flush=True)
        traceback.print_exc(file=sys.stderr)
        return False
    print(f"ok     {client}: {name}", flush=True)
    return True


def equal(got, want):
    assert got == want, f"got {got!r}, want {want!r}"
