"""Users with their context, items and actions, as `processed_seqs.csv` has them."""

import csv
import json
from dataclasses import dataclass

import numpy as np

from gr.argument_error import ArgumentError

TRAIN_SHARE = 0.7


@dataclass
class Sequences:
    """Users one after the other; those of user i lie from `offsets[i]` to `offsets[i + 1]`."""

    context: np.ndarray  # i64 [users, contexts]
    items: np.ndarray  # i64 [all items]
    actions: np.ndarray  # i64 [all items]
    offsets: np.ndarray  # i64 [users + 1]

    def __len__(self):
        return len(self.offsets) - 1

    def lengths(self):
        return np.diff(self.offsets)

    def part(self, start, stop):
        first, last = self.offsets[start], self.offsets[stop]
        offsets = self.offsets[start : stop + 1] - first
        return Sequences(
            self.context[start:stop], self.items[first:last], self.actions[first:last], offsets
        )


def read_sequences(path, features, most_items, more_than):
    """Users of more than `more_than` items, in their order, each with its first `most_items`."""
    csv.field_size_limit(2**31 - 1)
    if not path.is_file():
        raise ArgumentError(f"{path} is not there; `terrace preprocess` writes it")
    context, items, actions, lengths, skipped = [], [], [], [], 0
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        wanted = (*features.context, features.item, features.action)
        missing = [name for name in wanted if name not in (rows.fieldnames or ())]
        if missing:
            raise ArgumentError(f"{path}: no column {missing[0]!r}; it has {rows.fieldnames}")
        for row in rows:
            user_items = json.loads(row[features.item])
            if len(user_items) <= more_than:
                skipped += 1
                continue
            user_actions = json.loads(row[features.action])
            if len(user_items) != len(user_actions):
                counts = f"{len(user_items)} items and {len(user_actions)} actions"
                raise ArgumentError(f"{path}: line {rows.line_num} has {counts}")
            if features.actions and not features.actions.issuperset(user_actions):
                found = next(it for it in user_actions if it not in features.actions)
                known = sorted(features.actions)
                raise ArgumentError(f"{path}: {features.action} is {found}, not one of {known}")
            context.append([int(float(row[name])) for name in features.context])
            items.append(np.array(user_items[:most_items], np.int64))
            actions.append(np.array(user_actions[:most_items], np.int64))
            lengths.append(len(items[-1]))
    if not lengths:
        raise ArgumentError(f"{path}: no user of {skipped} has more than {more_than} items")
    return Sequences(
        np.array(context, np.int64).reshape(len(lengths), len(features.context)),
        np.concatenate(items),
        np.concatenate(actions),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def split_users(sequences):
    """The first 70% of users train, the others evaluate."""
    train = int(len(sequences) * TRAIN_SHARE)
    return sequences.part(0, train), sequences.part(train, len(sequences))
