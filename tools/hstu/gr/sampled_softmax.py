"""The loss of retrieval: the next item against some that are not it."""

import torch
from torch.nn import functional

NEVER = -5e4


def different_items(items, count):
    """As many draws, with replacement, of the different items; -1 is each of them once."""
    unique = torch.unique(items[items > 0])
    if count == -1:
        return unique
    return unique[torch.randint(len(unique), (count,), device=items.device)]


def sampled_softmax(queries, targets, target_ids, negatives, negative_ids, temperature):
    """Of f32 `[queries, dim]` and `[negatives, dim]`, all of length 1; negatives are shared."""
    # In float32 even where layers are computed in bfloat16: a temperature makes much of little.
    with torch.autocast(queries.device.type, enabled=False):
        positive = (queries * targets).sum(-1, keepdim=True) / temperature
        scores = queries @ negatives.T / temperature
    scores = scores.masked_fill(target_ids[:, None] == negative_ids, NEVER)
    logits = torch.cat([positive, scores], 1)
    return functional.cross_entropy(logits, logits.new_zeros(len(logits), dtype=torch.long))
