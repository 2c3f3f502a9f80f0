#!/usr/bin/env python3
"""Train a model that retrieves, as recsys-examples' program of this name does.

    torchrun --nproc_per_node 1 --master_addr localhost --master_port 6000 \\
      ./training/pretrain_gr_retrieval.py --gin-config-file FILE

With `SequentialArgs.enabled = True` it is the sequential model of generative-recommenders.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gr.args import SequentialArgs, given
from gr.retrieval_training import train_retrieval
from gr.run import run
from gr.sequential.training import train_sequential


def task(_command, trainer, random, say):
    sequential = given(SequentialArgs)
    if sequential.enabled:
        train_sequential(sequential, trainer, random, say)
    else:
        train_retrieval(trainer, random, say)


if __name__ == "__main__":
    run(__doc__.splitlines()[0], task)
