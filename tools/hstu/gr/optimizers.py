"""What changes the parameters: rows of dynamic tables are touched alone where a batch has them."""

import torch

from gr.argument_error import ArgumentError

MOST_GRADIENT = 1.0


class Optimizers:
    """One for all dense parameters, one for dynamic tables if the model has any."""

    def __init__(self, model, args):
        tables = getattr(model, "_embedding_collection", None)
        self.sparse_names = {}
        if tables is not None:
            names = tables.dynamic.embeddings
            self.sparse_names = {name: names[name].weight for name in names}
        sparse = list(self.sparse_names.values())
        ids = {id(parameter) for parameter in sparse}
        self.dense = [it for it in model.parameters() if id(it) not in ids]
        self.kind = args.optimizer_str.lower()
        self.args = args
        betas = (args.adam_beta1, args.adam_beta2)
        rates = {"lr": args.learning_rate, "betas": betas, "eps": args.adam_eps}
        if self.kind == "adam":
            self.of_dense = torch.optim.Adam(self.dense, fused=True, **rates)
            self.of_sparse = torch.optim.SparseAdam(sparse, **rates) if sparse else None
        elif self.kind == "sgd":
            self.of_dense = torch.optim.SGD(self.dense, lr=args.learning_rate)
            self.of_sparse = torch.optim.SGD(sparse, lr=args.learning_rate) if sparse else None
        else:
            raise ArgumentError(f"OptimizerArgs.optimizer_str: {self.kind!r} is not adam or sgd")

    def step(self, loss):
        for optimizer in self.all():
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.dense, MOST_GRADIENT)
        for optimizer in self.all():
            optimizer.step()

    def all(self):
        return [it for it in (self.of_dense, self.of_sparse) if it is not None]

    def row_states(self, name):
        """f32 `[rows, states]` of a dynamic table's optimizer: Adam's moments side by side."""
        weight = self.sparse_names[name]
        state = self.of_sparse.state.get(weight, {})
        if self.kind != "adam":
            return torch.zeros(len(weight), 0)
        moments = [state.get(key, torch.zeros_like(weight)) for key in ("exp_avg", "exp_avg_sq")]
        return torch.cat(moments, 1).cpu()

    def set_row_states(self, name, states, step):
        weight = self.sparse_names[name]
        if self.kind != "adam" or states.shape[1] != 2 * weight.shape[1]:
            return
        first, second = states.to(weight.device).chunk(2, dim=1)
        moments = {"exp_avg": first.contiguous(), "exp_avg_sq": second.contiguous()}
        self.of_sparse.state[weight] = {"step": step, **moments}

    def sparse_step(self):
        states = self.of_sparse.state.values() if self.of_sparse else ()
        return max((int(state.get("step", 0)) for state in states), default=0)
