"""From rows of the tables to what the layers make of each token."""

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from gr.attention import hstu_attention
from gr.hstu_layer import HstuLayer
from gr.mask import TokenCounts, masked_blocks
from gr.mlp import Mlp
from gr.token_stream import token_stream

BLOCK_ROWS = {"cpu": 128, "cuda": 1024}


@dataclass
class Encoded:
    tokens: torch.Tensor  # f32 [seqs, tokens, hidden]
    counts: TokenCounts

    def candidates(self):
        """Rows of all candidates, one user's after the other's, of length 1."""
        position = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        ends = self.counts.tokens[:, None]
        mask = (position >= ends - self.counts.candidates[:, None]) & (position < ends)
        return l2_normed(self.tokens[mask])

    def history_items(self):
        """Rows of all items, padded, of length 1: `[seqs, items, hidden]`. No candidates follow."""
        contexts = int(self.counts.contexts[0])
        return l2_normed(self.tokens[:, contexts::2])


def l2_normed(rows, eps=1e-6):
    return rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True).clamp(min=eps)


class PositionEncoder(nn.Module):
    """Adds a row by position; all candidates have the position behind the history."""

    def __init__(self, rows, hidden):
        super().__init__()
        reach = math.sqrt(1 / rows)
        numbers = torch.empty(rows, hidden).uniform_(-reach, reach)
        self._position_embeddings_weight = nn.Parameter(numbers)

    def forward(self, tokens, counts):
        rows, hidden = self._position_embeddings_weight.shape
        position = torch.arange(tokens.shape[1], device=tokens.device)
        last = (counts.tokens - counts.candidates).clamp(max=rows - 1)
        position = torch.minimum(position, last[:, None])
        places = functional.embedding(position, self._position_embeddings_weight)
        return tokens * math.sqrt(hidden) + places


class Preprocessor(nn.Module):
    def __init__(self, args):
        super().__init__()
        hidden, dim = args.hidden_size, args.item_embedding_dim
        has_mlps = dim > 0
        self._item_mlp = Mlp(dim, [hidden, hidden]) if has_mlps else None
        self._contextual_mlp = Mlp(dim, [hidden, hidden]) if has_mlps else None
        self._positional_encoder = PositionEncoder(args.num_position_buckets, hidden)
        self.dropout = args.hidden_dropout

    def forward(self, context, items, actions, lengths, candidates):
        if self._item_mlp is not None:
            context = self._contextual_mlp(context)
            items, actions = self._item_mlp(items), self._item_mlp(actions)
        stream = token_stream(context, items, actions, lengths, candidates)
        tokens = self._positional_encoder(stream.tokens, stream.counts)
        return functional.dropout(tokens, self.dropout, self.training), stream.counts


class HstuBlock(nn.Module):
    """In training the context may see the whole history; evaluated and served, it never does."""

    def __init__(self, args, divisor):
        super().__init__()
        self._preprocessor = Preprocessor(args)
        layers = (HstuLayer(args) for _ in range(args.num_layers))
        self._attention_layers = nn.ModuleList(layers)
        self.alpha, self.divisor = args.kv_channels**-0.5, float(divisor)
        self.contextual_mask = not args.disable_contextual_mask

    def forward(self, context, items, actions, lengths, candidates):
        tokens, counts = self._preprocessor(context, items, actions, lengths, candidates)
        contextual_mask = self.contextual_mask and self.training and context.shape[1] > 0
        rows = BLOCK_ROWS[tokens.device.type]
        blocks = masked_blocks(counts, tokens.shape[1], rows, contextual_mask)
        attend = partial(
            hstu_attention, blocks=blocks, alpha=self.alpha, divisor=self.divisor
        )
        for layer in self._attention_layers:
            tokens = layer(tokens, attend)
        return Encoded(tokens, counts)
