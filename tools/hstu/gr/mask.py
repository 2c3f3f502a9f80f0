"""Which keys a row may see: context, then history, then candidates.

A row sees what is before it and itself; a candidate sees no candidate of another group. With a
contextual mask the rows of the context see all that is no candidate. Rows behind a sequence's end
are padding, and nobody sees them.
"""

from dataclasses import dataclass

import torch


@dataclass
class TokenCounts:
    """i64 `[seqs]` each; `tokens` is context, history and candidates together."""

    tokens: torch.Tensor
    contexts: torch.Tensor
    candidates: torch.Tensor


@dataclass
class MaskedBlock:
    """Rows `[first, last)` attend keys `[0, keys)`; allowed: bool `[seqs, 1, rows, keys]`."""

    first: int
    last: int
    keys: int
    allowed: torch.Tensor


def allowed(counts, rows, keys, contextual_mask=False, target_group_size=1):
    """bool `[seqs, rows, keys]` for positions i64 `[rows]` and `[keys]`."""
    i, j = rows[None, :, None], keys[None, None, :]
    tokens = counts.tokens[:, None, None]
    history_end = tokens - counts.candidates[:, None, None]
    both = (i >= history_end) & (j >= history_end)
    groups = [(position - history_end).div(target_group_size, rounding_mode="floor")
              for position in (i, j)]
    before = j <= i
    if contextual_mask:
        # All of the context counts as one position, which sees the whole history.
        shift = counts.contexts[:, None, None] - 1
        i_id, j_id = (i - shift).clamp(min=0), (j - shift).clamp(min=0)
        of_context = (i_id == 0) & (j_id < history_end - shift)
        before = (i == j) | (i_id > j_id) | of_context
    return before & (~both | (groups[0] == groups[1])) & (j < tokens)


def masked_blocks(counts, length, block_rows, contextual_mask=False, target_group_size=1):
    """All rows of padded sequences, block by block, each with the keys that any of it may see."""
    device = counts.tokens.device
    blocks = []
    for first in range(0, length, block_rows):
        last = min(first + block_rows, length)
        keys = length if contextual_mask and first == 0 else last
        rows = torch.arange(first, last, device=device)
        mask = allowed(
            counts, rows, torch.arange(keys, device=device), contextual_mask, target_group_size
        )
        blocks.append(MaskedBlock(first, last, keys, mask[:, None]))
    return blocks
