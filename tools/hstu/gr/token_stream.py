"""A batch as tokens: its context, items and actions by turns, then its candidates, then padding."""

from dataclasses import dataclass

import torch

from gr.mask import TokenCounts


@dataclass
class TokenStream:
    tokens: torch.Tensor  # [seqs, tokens, width]
    counts: TokenCounts


def token_stream(context, items, actions, lengths, candidates):
    """Of rows `[seqs, contexts, width]` and `[seqs, items, width]`; candidates have no actions."""
    seqs, contexts, width = context.shape
    most_items = items.shape[1]
    history = lengths - candidates
    counts = TokenCounts(
        tokens=contexts + 2 * history + candidates,
        contexts=torch.full_like(lengths, contexts),
        candidates=candidates,
    )
    position = torch.arange(int(counts.tokens.max()), device=lengths.device)
    in_history = position - contexts
    of_history = contexts + in_history // 2 + (in_history % 2) * most_items
    of_candidates = contexts + history[:, None] + (in_history - 2 * history[:, None])
    source = torch.where(in_history < 2 * history[:, None], of_history, of_candidates)
    source = torch.where(in_history < 0, position, source)
    source = source.clamp(max=contexts + 2 * most_items - 1)
    together = torch.cat([context, items, actions], 1)
    tokens = together.gather(1, source[:, :, None].expand(seqs, -1, width))
    return TokenStream(tokens, counts)
