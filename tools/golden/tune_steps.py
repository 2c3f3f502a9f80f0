"""Steps of PyTorch's optimisers, and of branches of low rank that they train.

    python tools/golden/tune_steps.py testdata/tune
"""

import json
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

SHAPE = (3, 5)
STEPS = 6

# Options as Terrace has them; what is left out keeps PyTorch's default.
OPTIMISERS = {
    "adam": {},
    "adam_decay": {"name": "Adam", "learning_rate": 0.02, "weight_decay": 0.1, "eps": 1e-6},
    "adamw": {},
    "adamw_betas": {"name": "AdamW", "learning_rate": 0.05, "adam_betas": [0.8, 0.95]},
    "adamax": {},
    "adamax_decay": {"name": "Adamax", "learning_rate": 0.01, "weight_decay": 0.2},
    "adadelta": {},
    "adadelta_rho": {"name": "Adadelta", "adadelta_rho": 0.7, "eps": 1e-5, "weight_decay": 0.1},
    "rmsprop": {},
    "rmsprop_momentum": {"name": "RMSprop", "rmspprop_alpha": 0.9, "momentum": 0.8},
    "sgd": {},
    "sgd_momentum": {
        "name": "SGD",
        "learning_rate": 0.1,
        "momentum": 0.9,
        "dampening": 0.3,
        "weight_decay": 0.05,
    },
}
NAMES = {
    "adam": "Adam",
    "adamw": "AdamW",
    "adamax": "Adamax",
    "adadelta": "Adadelta",
    "rmsprop": "RMSprop",
    "sgd": "SGD",
}
TORCH_OPTIONS = {
    "learning_rate": "lr",
    "adam_betas": "betas",
    "adadelta_rho": "rho",
    "rmspprop_alpha": "alpha",
}


def optimiser(options, parameters):
    options = dict(options)
    kind = getattr(torch.optim, options.pop("name"))
    # The way of one tensor at a time, whose order of operations PyTorch documents.
    return kind(parameters, foreach=False, **{TORCH_OPTIONS.get(k, k): v for k, v in options.items()})


def optimisers(random):
    tensors = {"start": torch.randn(SHAPE, generator=random)}
    for step in range(STEPS):
        tensors[f"gradient.{step}"] = torch.randn(SHAPE, generator=random) * 10 ** (step % 3 - 2)
    for name, options in OPTIMISERS.items():
        options.setdefault("name", NAMES.get(name))
        parameter = torch.nn.Parameter(tensors["start"].clone())
        running = optimiser(options, [parameter])
        for step in range(STEPS):
            parameter.grad = tensors[f"gradient.{step}"].clone()
            running.step()
            tensors[f"{name}.{step}"] = parameter.detach().clone()
    return tensors


def schedule(warmup, steps):
    """Linear warm-up, then a cosine to 0."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    running = torch.optim.SGD([parameter], lr=1.0)
    first = torch.optim.lr_scheduler.LambdaLR(running, lambda step: (step + 1) / warmup)
    rates = []
    for _ in range(warmup):
        rates.append(first.get_last_lr()[0])
        running.step()
        first.step()
    running.param_groups[0]["lr"] = running.param_groups[0]["initial_lr"] = 1.0
    second = torch.optim.lr_scheduler.CosineAnnealingLR(running, T_max=steps - warmup)
    for _ in range(steps - warmup):
        rates.append(second.get_last_lr()[0])
        running.step()
        second.step()
    return rates


def clipped(random):
    tensors = {}
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in (3, 7)]
    for scale in (0.1, 10.0):
        for i, parameter in enumerate(parameters):
            parameter.grad = torch.randn(parameter.shape, generator=random) * scale
            tensors[f"clip.{scale}.{i}"] = parameter.grad.clone()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        tensors[f"clip.{scale}.norm"] = norm.reshape(1)
        for i, parameter in enumerate(parameters):
            tensors[f"clip.{scale}.{i}.after"] = parameter.grad.clone()
    return tensors


TOKENS, COLUMNS, ROWS, RANK, SCALE = 7, 6, 5, 2, 1.5


def branch(kind, p, weight, bias, x):
    added = SCALE * F.linear(F.linear(x, p["a"]), p["b"])
    if kind == "default":
        return F.linear(x, weight, bias) + added
    if kind == "rms_norm":
        norm = added * torch.rsqrt(added.square().mean(-1, keepdim=True) + 1e-8)
        return F.linear(x, weight, bias) + norm * p["vector"]
    norms = (weight + SCALE * p["b"] @ p["a"]).norm(dim=1).detach()
    return (F.linear(x, weight) + added) * (p["vector"] / norms) + bias


def branches(random):
    def draw(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64).float().double()

    tensors = {"weight": draw(ROWS, COLUMNS), "bias": draw(ROWS), "x": draw(TOKENS, COLUMNS)}
    start = {"a": draw(RANK, COLUMNS), "b": draw(ROWS, RANK), "vector": draw(ROWS) + 2.0}
    tensors |= {f"start.{name}": value for name, value in start.items()}
    tensors["start.vector"] = start["vector"].float().double()
    for step in range(STEPS):
        tensors[f"d_out.{step}"] = draw(TOKENS, ROWS)
    for kind in ("default", "rms_norm", "dora"):
        names = ["a", "b"] + (["vector"] if kind != "default" else [])
        p = {name: torch.nn.Parameter(tensors[f"start.{name}"].clone()) for name in names}
        running = torch.optim.AdamW(p.values(), lr=0.01, foreach=False)
        x = tensors["x"].clone().requires_grad_()
        for step in range(STEPS):
            x.grad = None
            running.zero_grad()
            out = branch(kind, p, tensors["weight"], tensors["bias"], x)
            (out * tensors[f"d_out.{step}"]).sum().backward()
            running.step()
            tensors[f"{kind}.{step}.out"] = out.detach()
            tensors[f"{kind}.{step}.d_x"] = x.grad.clone()
            tensors |= {f"{kind}.{step}.{n}": v.detach().clone() for n, v in p.items()}
    return {name: value.float().contiguous() for name, value in tensors.items()}


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    random = torch.Generator().manual_seed(20260101)
    save_file(optimisers(random) | clipped(random), folder / "optimisers.safetensors")
    save_file(branches(random), folder / "branches.safetensors")
    about = {
        "torch": torch.__version__.split("+")[0],
        "steps": STEPS,
        "optimisers": OPTIMISERS,
        "branches": {"scale": SCALE, "learning_rate": 0.01},
        "schedules": [
            {"warmup": warmup, "steps": steps, "factors": schedule(warmup, steps)}
            for warmup, steps in ((3, 20), (1, 5), (10, 11))
        ],
    }
    assert math.isclose(about["schedules"][0]["factors"][2], 1.0)
    (folder / "manifest.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
