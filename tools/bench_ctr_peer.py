#!/usr/bin/env python3
"""How long PyTorch takes for the model that `terrace bench ctr` measures.

    tools/bench_ctr_peer.py [--device cpu] [--batch 32,1024,8192] [--rows 1000000] [--threads 2]

A DLRM: 26 keys a sample in one table of rows of 128 numbers, 13 dense features, layers of 512, 256
and 128 below and 1024, 1024, 512, 256 and 1 above. Keys, features and results are in host memory
before and after; eight batches of random keys take turns, as there. Printed: the best and the
median of the runs, in microseconds, of f32 and bf16 on a CPU, and of fp16 on a GPU, where a step is
also captured as a CUDA graph. Needs `torch`.
"""

import argparse
import statistics
import time

import torch

SLOTS, DIM, DENSE = 26, 128, 13
BATCHES, WARM_UP = 8, 10
BOTTOM, TOP = [512, 256, 128], [1024, 1024, 512, 256, 1]


class Dlrm(torch.nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(rows, DIM) * 0.1)
        self.bottom = stack(DENSE, BOTTOM)
        pairs = (SLOTS + 1) * SLOTS // 2
        self.top = stack(DIM + pairs + 1, TOP)
        second, first = torch.tril_indices(SLOTS + 1, SLOTS + 1, -1)
        self.register_buffer("pairs", second * (SLOTS + 1) + first)

    def forward(self, dense, keys):
        x = dense.to(self.table.dtype)
        for layer in self.bottom:
            x = torch.relu(layer(x))
        vectors = torch.cat([x.unsqueeze(1), self.table[keys]], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        x = torch.cat([x, products.index_select(1, self.pairs), x.new_zeros(len(x), 1)], 1)
        for layer in self.top[:-1]:
            x = torch.relu(layer(x))
        return torch.sigmoid(self.top[-1](x)).float()


def stack(width, outputs):
    layers = []
    for size in outputs:
        layers.append(torch.nn.Linear(width, size))
        width = size
    return torch.nn.ModuleList(layers)


def measure(step, inputs, repeat):
    times = []
    for run in range(WARM_UP + repeat):
        dense, keys = inputs[run % len(inputs)]
        start = time.perf_counter()
        step(dense, keys)
        times.append((time.perf_counter() - start) * 1e6)
    times = times[WARM_UP:]
    return min(times), statistics.median(times)


def on_gpu(model, inputs, repeat):
    """One launch after the other, and as a captured graph, with copies of pinned memory."""
    inputs = [(dense.pin_memory(), keys.pin_memory()) for dense, keys in inputs]
    there = [tensor.cuda() for tensor in inputs[0]]
    host = torch.empty(len(inputs[0][1]), 1).pin_memory()

    def eager(dense, keys):
        for to, of in zip(there, (dense, keys)):
            to.copy_(of, non_blocking=True)
        host.copy_(model(*there), non_blocking=True)
        torch.cuda.synchronize()

    eager(*inputs[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = model(*there)

    def captured(dense, keys):
        for to, of in zip(there, (dense, keys)):
            to.copy_(of, non_blocking=True)
        graph.replay()
        host.copy_(result, non_blocking=True)
        torch.cuda.synchronize()

    return measure(eager, inputs, repeat), measure(captured, inputs, repeat)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", default="32,1024,8192")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeat", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    is_cpu = options.device == "cpu"
    for dtype in [torch.float32, torch.bfloat16] if is_cpu else [torch.float16]:
        model = Dlrm(options.rows).to(options.device, dtype).eval()
        for batch in map(int, options.batch.split(",")):
            inputs = [
                (torch.rand(batch, DENSE), torch.randint(options.rows, (batch, SLOTS)))
                for _ in range(BATCHES)
            ]
            name = f"torch {torch.__version__} {str(dtype).split('.')[1]} batch {batch}"
            with torch.inference_mode():
                if is_cpu:
                    times = {"": measure(model, inputs, options.repeat)}
                else:
                    times = dict(zip((", eager", ", graph"), on_gpu(model, inputs, options.repeat)))
            for how, (best, median) in times.items():
                print(f"{name}{how}: best {best:.0f} us, median {median:.0f} us", flush=True)


if __name__ == "__main__":
    main()
