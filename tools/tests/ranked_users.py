"""Users of a recommender that tests ask for: histories that grow, and requests about them.

The model is the tiny one of the tests: two features of context with 5 and 7 ids, items 1000 to 1059,
9 actions, histories of up to 202 tokens, up to 50 candidates.
"""

import itertools
import json
import urllib.error
import urllib.parse
import urllib.request

ITEMS = range(1000, 1060)
ACTIONS = 9
MOST_EVENTS = 100
MOST_CANDIDATES = 50

NAMES = itertools.count()


class Refused(Exception):
    """An answer that is no success: its status, and the error in it."""

    def __init__(self, status, error):
        super().__init__(error["message"])
        self.status, self.error = status, error


def ask(base, method, path, body=None):
    """The JSON of an answer."""
    data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)
    except urllib.error.HTTPError as refusal:
        raise Refused(refusal.code, json.load(refusal)["error"]) from None


class RankedUser:
    """One history, changed by whoever draws."""

    def __init__(self, name, chance):
        self.name, self.chance = name, chance
        self.context = [chance.randrange(5), chance.randrange(7)]
        self.items, self.actions = [], []

    def grow(self, most=20):
        for _ in range(self.chance.randrange(most)):
            if len(self.items) < MOST_EVENTS:
                self.items.append(self.chance.choice(ITEMS))
                self.actions.append(self.chance.randrange(ACTIONS))

    def edit(self):
        """Some event was another, or some feature of context."""
        if self.items and self.chance.random() < 0.5:
            self.items[self.chance.randrange(len(self.items))] = self.chance.choice(ITEMS)
        else:
            self.context[1] = self.chance.randrange(7)

    def request(self, candidates=None):
        most = candidates or 1 + self.chance.randrange(MOST_CANDIDATES)
        return {
            "user": self.name,
            "context": list(self.context),
            "items": list(self.items),
            "actions": list(self.actions),
            "candidates": [self.chance.choice(ITEMS) for _ in range(most)],
        }


def logits(answer):
    return [result["logits"] for result in answer["results"]]


def fresh_logits(base, request, nobody="nobody"):
    """What a server gives that has nothing cached of the user: one whom nobody has named before, for
    while a level is out of reach, records of removed users stay there."""
    nobody = f"{nobody} {next(NAMES)}"
    other = dict(request, user=nobody)
    answer = ask(base, "POST", "/v1/rank", other)
    ask(base, "DELETE", f"/v1/users/{urllib.parse.quote(nobody)}/cache")
    assert answer["usage"]["cached_tokens"] == 0, answer["usage"]
    return logits(answer)
