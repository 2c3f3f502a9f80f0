"""Progress for people, beside the results; and failures that end one measurement, not all."""

import sys


class Failed(Exception):
    """A program could not be built, started or measured; says why."""


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def last_lines(text, count=12):
    return "\n".join(text.strip().splitlines()[-count:])
