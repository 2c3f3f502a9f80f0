"""Users as padded batches of rows of the tables."""

from dataclasses import dataclass, fields

import numpy as np
import torch

from gr.vocabulary import ids_of

POOL_BATCHES = 16


@dataclass
class Batch:
    """Tokens of a user: context, item and action by turns, then candidates; padded at the end."""

    context: torch.Tensor  # i64 [seqs, contexts], rows
    items: torch.Tensor  # i64 [seqs, items], rows: history, then candidates
    actions: torch.Tensor  # i64 [seqs, items], rows; those of candidates are never looked at
    lengths: torch.Tensor  # i64 [seqs]: items, candidates too
    candidates: torch.Tensor  # i64 [seqs]
    labels: torch.Tensor  # i64 [all candidates], the actions themselves
    item_ids: torch.Tensor  # i64 [seqs, items], the ids themselves

    def to(self, device):
        moved = {f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)}
        return Batch(**moved)

    @property
    def seqs(self):
        return len(self.lengths)


class Batches:
    """The users of one split, with the rows of their ids looked up once."""

    def __init__(self, sequences, features, vocabularies, candidates, batch_size):
        self.sequences, self.batch_size = sequences, batch_size
        self.candidates = candidates
        self.dynamic_context = [
            i for i, name in enumerate(features.context)
            if name in {table.feature for table in features.dynamic}
        ]
        names = (features.item, features.action, *features.context)
        self.items, self.actions, *context = (
            vocabularies[name].rows(ids_of(name, sequences, features)) for name in names
        )
        self.context = np.stack(context, 1) if context else sequences.context

    def __len__(self):
        return -(-len(self.sequences) // self.batch_size)

    def split(self, users):
        return (users[i : i + self.batch_size] for i in range(0, len(users), self.batch_size))

    def in_order(self):
        lengths = self.sequences.lengths()
        for users in self.split(np.arange(len(self.sequences))):
            yield self.batch(users, lengths[users])

    def of_similar_length(self, users, lengths, random):
        """Parts of shuffled users that have little padding."""
        pool = POOL_BATCHES * self.batch_size
        for start in range(0, len(users), pool):
            mixed = users[start : start + pool]
            parts = list(self.split(mixed[np.argsort(lengths[mixed], kind="stable")]))
            for i in random.permutation(len(parts)):
                yield parts[i]

    def endless(self, shuffle, random, augmentation):
        """`augmentation`: AugmentationArgs"""
        lengths = self.sequences.lengths()
        while True:
            users = random.permutation(len(lengths)) if shuffle else np.arange(len(lengths))
            cut = lengths
            if augmentation.random_prefix:
                cut = random.integers(np.minimum(self.candidates + 1, lengths), lengths + 1)
            batches = self.of_similar_length(users, cut, random) if shuffle else self.split(users)
            for chosen in batches:
                batch = self.batch(chosen, cut[chosen])
                unknown = random.random(len(chosen)) < augmentation.unknown_user_share
                for feature in self.dynamic_context:
                    batch.context[torch.from_numpy(unknown), feature] = 0
                yield batch

    def batch(self, users, lengths):
        """The first items of each user, as many as its length says."""
        offsets = self.sequences.offsets
        columns = np.arange(lengths.max())
        present = columns < lengths[:, None]
        places = (offsets[users][:, None] + columns)[present]

        def padded(flat):
            out = np.zeros(present.shape, np.int64)
            out[present] = flat[places]
            return torch.from_numpy(out)

        is_candidate = columns >= (lengths - self.candidates)[:, None]
        labels = padded(self.sequences.actions).numpy()[present & is_candidate]
        return Batch(
            context=torch.from_numpy(self.context[users].copy()),
            items=padded(self.items),
            actions=padded(self.actions),
            lengths=torch.from_numpy(lengths),
            candidates=torch.full((len(users),), self.candidates),
            labels=torch.from_numpy(labels),
            item_ids=padded(self.sequences.items),
        )
