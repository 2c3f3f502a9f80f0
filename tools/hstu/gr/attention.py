"""HSTU attention: a masked sum over keys, weighted by SiLU of the scores, without a softmax.

Scores are recomputed in the backward pass, so that memory grows with the tokens alone.
"""

import torch


def block_weights(query, key, block, alpha, divisor):
    """SiLU of the scores, 0 where the mask forbids, and the scores.

    Both are f32 `[seqs, heads, rows, keys]`.
    """
    scores = torch.matmul(query[:, :, block.first : block.last], key[:, :, : block.keys].mT)
    scores = scores.float() * alpha
    weights = torch.nn.functional.silu(scores) / divisor
    return weights.masked_fill_(~block.allowed, 0.0), scores


class HstuAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, blocks, alpha, divisor):
        """query, key, value, result: `[seqs, heads, tokens, head_dim]`"""
        ctx.save_for_backward(query, key, value)
        ctx.blocks, ctx.alpha, ctx.divisor = blocks, alpha, divisor
        outputs = []
        for block in blocks:
            weights, _ = block_weights(query, key, block, alpha, divisor)
            outputs.append(torch.matmul(weights.to(value.dtype), value[:, :, : block.keys]))
        return torch.cat(outputs, 2)

    @staticmethod
    def backward(ctx, gradient):
        query, key, value = ctx.saved_tensors
        gradient = gradient.to(value.dtype)
        d_query = torch.empty_like(query)
        d_key, d_value = torch.zeros_like(key), torch.zeros_like(value)
        for block in ctx.blocks:
            rows, keys = slice(block.first, block.last), slice(0, block.keys)
            weights, scores = block_weights(query, key, block, ctx.alpha, ctx.divisor)
            d_rows = gradient[:, :, rows]
            d_value[:, :, keys] += torch.matmul(weights.to(value.dtype).mT, d_rows)
            d_weights = torch.matmul(d_rows, value[:, :, keys].mT).float()
            sigmoid = torch.sigmoid(scores)
            slope = sigmoid * (1 + scores * (1 - sigmoid)) * (ctx.alpha / ctx.divisor)
            d_scores = (d_weights * slope).masked_fill_(~block.allowed, 0.0).to(query.dtype)
            d_query[:, :, rows] = torch.matmul(d_scores, key[:, :, keys])
            d_key[:, :, keys] += torch.matmul(d_scores.mT, query[:, :, rows])
        return d_query, d_key, d_value, None, None, None


def hstu_attention(query, key, value, blocks, alpha, divisor):
    """`[seqs, heads, tokens, head_dim]`, of blocks that cover all rows."""
    return HstuAttention.apply(query, key, value, blocks, alpha, divisor)
