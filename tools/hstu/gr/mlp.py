"""Linear layers with an activation between them and none behind the last."""

from torch import nn

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


class Mlp(nn.Module):
    def __init__(self, inputs, sizes, activation="relu", bias=True):
        super().__init__()
        layers = []
        for before, size in zip([inputs, *sizes], sizes):
            linear = nn.Linear(before, size, bias=bias)
            nn.init.xavier_uniform_(linear.weight)
            if bias:
                nn.init.zeros_(linear.bias)
            layers += [linear, ACTIVATIONS[activation]()]
        self._mlp = nn.Sequential(*layers[:-1])

    def forward(self, numbers):
        return self._mlp(numbers)
