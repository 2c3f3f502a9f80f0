"""The HSTU layer of recsys-examples, with the parameters of its fused layer."""

import torch
from torch import nn
from torch.nn import functional


class HstuLayer(nn.Module):
    def __init__(self, args, residual=True):
        """`args`: NetworkArgs"""
        super().__init__()
        hidden, self.heads, self.head_dim = (
            args.hidden_size, args.num_attention_heads, args.kv_channels
        )
        width = self.heads * self.head_dim
        self.eps, self.dropout, self.residual = args.norm_epsilon, args.hidden_dropout, residual
        # Matrices lie transposed, [inputs, outputs]; the outputs are U, V, Q and K.
        self._linear_uvqk_weight = nn.Parameter(torch.empty(hidden, 4 * width))
        self._linear_uvqk_bias = nn.Parameter(torch.zeros(4 * width))
        self._input_layernorm_weight = nn.Parameter(torch.ones(hidden))
        self._input_layernorm_bias = nn.Parameter(torch.zeros(hidden))
        self._output_layernorm_weight = nn.Parameter(torch.ones(width))
        self._output_layernorm_bias = nn.Parameter(torch.zeros(width))
        self._linear_proj_weight = nn.Parameter(torch.empty(width, hidden))
        nn.init.xavier_uniform_(self._linear_uvqk_weight)
        nn.init.xavier_uniform_(self._linear_proj_weight)

    def norm(self, which, numbers):
        weight = getattr(self, f"_{which}_layernorm_weight")
        bias = getattr(self, f"_{which}_layernorm_bias")
        return functional.layer_norm(numbers.float(), weight.shape, weight, bias, self.eps)

    def gates_and_heads(self, tokens):
        """U `[seqs, tokens, heads * head_dim]`; V, Q, K `[seqs, heads, tokens, head_dim]`"""
        normed = self.norm("input", tokens)
        weight = self._linear_uvqk_weight.t()
        uvqk = functional.silu(functional.linear(normed, weight, self._linear_uvqk_bias))
        gate, *rest = uvqk.chunk(4, dim=-1)
        heads = (part.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2) for part in rest)
        return gate, *heads

    def forward(self, tokens, attend):
        """tokens `[seqs, tokens, hidden]`; `attend` of query, key and value"""
        gate, value, query, key = self.gates_and_heads(tokens)
        attended = attend(query, key, value).transpose(1, 2).flatten(2)
        gated = gate.float() * self.norm("output", attended)
        gated = functional.dropout(gated, self.dropout, self.training)
        out = functional.linear(gated, self._linear_proj_weight.t())
        return out + tokens if self.residual else out
