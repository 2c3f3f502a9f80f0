"""Which row of its table an id has."""

import numpy as np


class StaticVocabulary:
    """An id is its row; the row behind the last is zeros, for ids that there are no rows for."""

    def __init__(self, table):
        self.name, self.count = table.name, table.rows

    def rows(self, ids):
        return np.where((ids < 0) | (ids >= self.count), self.count, ids)


class DynamicVocabulary:
    """Row 0 is zeros, for ids that were not there in training; keys are sorted and follow it."""

    def __init__(self, keys):
        self.keys = np.unique(keys)

    @property
    def count(self):
        return len(self.keys) + 1

    def rows(self, ids):
        if not len(self.keys):
            return np.zeros_like(ids)
        found = np.searchsorted(self.keys, ids).clip(max=len(self.keys) - 1)
        return np.where(self.keys[found] == ids, found + 1, 0)


def ids_of(feature, sequences, features):
    """All ids of a feature, of whichever users."""
    if feature == features.item:
        return sequences.items
    if feature == features.action:
        return sequences.actions
    return sequences.context[:, features.context.index(feature)]


def make_vocabularies(features, train, known_keys):
    """By feature. `known_keys`, by table, are the ids of a checkpoint that is continued."""
    vocabularies = {}
    for table in features.tables:
        if table.rows is not None:
            vocabularies[table.feature] = StaticVocabulary(table)
            continue
        ids = ids_of(table.feature, train, features)
        more = known_keys.get(table.name, np.empty(0, np.int64))
        vocabularies[table.feature] = DynamicVocabulary(np.concatenate([ids, more]))
    return vocabularies


def note_ids_without_rows(vocabularies, sequences, features, say=print):
    """As the server does, ids that a static table has no row for are taken as rows of zeros."""
    for table in features.static:
        ids = ids_of(table.feature, sequences, features)
        outside = int((vocabularies[table.feature].rows(ids) == table.rows).sum())
        if outside:
            rows = f"the table {table.name} has {table.rows} rows"
            say(f"[note] {outside} ids of {table.feature} are taken as zeros: {rows}")
