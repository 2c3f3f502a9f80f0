"""A request to try: a user that was not trained on, its history, and films that it rated later."""

import csv
import json

TRAIN_SHARE = 0.7
CANDIDATES = 10
MOST_HISTORY = 200
CONTEXT = ("user_id", "sex", "age_group", "occupation", "zip_code")
WHAT_BITS_MEAN = {0b000: "2 or less", 0b001: "3", 0b011: "4", 0b111: "5"}


def pick_user(rows):
    """The first one that was not trained on, and gave its last films ratings of all kinds."""
    for row in rows[int(TRAIN_SHARE * len(rows)) :]:
        items, actions = json.loads(row["movie_id"]), json.loads(row["rating"])
        kept = slice(0, MOST_HISTORY + CANDIDATES)
        items, actions = items[kept], actions[kept]
        if len(items) > 2 * CANDIDATES and len(set(actions[-CANDIDATES:])) == len(WHAT_BITS_MEAN):
            return row, items, actions
    raise SystemExit("error: processed_seqs.csv has no user to try; remove the folder and repeat")


def write_request(path, sequences, model):
    """What is written, and beside it what the user thought of the candidates."""
    with open(sequences, newline="", encoding="utf-8") as file:
        row, items, actions = pick_user(list(csv.DictReader(file)))
    first_of = {action: i for i, action in reversed(list(enumerate(actions[-CANDIDATES:])))}
    places = [len(items) - CANDIDATES + first_of[action] for action in sorted(first_of)]
    request = {
        "model": model,
        "user": row["user_id"],
        "context": [int(row[name]) for name in CONTEXT],
        "items": items[:-CANDIDATES],
        "actions": actions[:-CANDIDATES],
        "candidates": [items[place] for place in places],
    }
    path.write_text(json.dumps(request))
    return request | {"rated": [WHAT_BITS_MEAN[actions[place]] for place in places]}


def describe(request, path, port):
    films = ", ".join(map(str, request["candidates"]))
    rated = ", ".join(request["rated"])
    return (
        f"\nUser {request['user']} was not in the training data. Its first {len(request['items'])} "
        f"ratings are the history in {path};\nwhat will it think of the films {films}? "
        f"(It rated them {rated}.) Ask in another terminal:\n\n"
        f"    curl http://127.0.0.1:{port}/v1/rank -H 'Content-Type: application/json' "
        f"-d @{path}\n\n"
        "Each film gets three probabilities: of a rating of 3 or more, of 4 or more, and of 5.\n"
    )
