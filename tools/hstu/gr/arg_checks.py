"""Keys of gin files that cannot act here.

They are refused, or noted where leaving them out changes no result.
"""

import re

import gin

from gr.argument_error import ArgumentError

MEMORY = "tables lie where the model is computed, and have all ids of the training users"
NOTES = {
    "TrainerArgs": {
        "profile": "a profiler can be started around the command",
        "profile_step_start": "nothing is profiled",
        "profile_step_end": "nothing is profiled",
        "pipeline_type": "batches are small enough to be made in between",
        "enable_balanced_shuffler": "there is one process",
    },
    "NetworkArgs": {
        "kernel_backend": "layers are computed by PyTorch",
        "recompute_input_layernorm": "attention alone keeps little, and is recomputed always",
        "recompute_input_silu": "attention alone keeps little, and is recomputed always",
        "embedding_backend": "it is for inference",
    },
    "DynamicEmbeddingArgs": {
        "global_hbm_for_values": MEMORY,
        "item_vocab_gpu_capacity": MEMORY,
        "item_vocab_gpu_capacity_ratio": MEMORY,
        "caching": MEMORY,
        "dist_type": "there is one process",
        "evict_strategy": "no id is evicted; checkpoints carry one score for all",
    },
}


def refuse(condition, key, reason):
    if condition:
        raise ArgumentError(f"{key}: {reason}")


def note_ignored_keys(say=print):
    for name, reasons in NOTES.items():
        for key in gin.get_bindings(name):
            if key in reasons:
                say(f"[note] {name}.{key} does not act here: {reasons[key]}")


def check_trainer(args):
    for key in ("train_batch_size", "eval_batch_size", "log_interval"):
        refuse(getattr(args, key) < 1, f"TrainerArgs.{key}", "must be 1 or more")
    known = ("none", "native", "prefetch")
    refuse(args.pipeline_type not in known, "TrainerArgs.pipeline_type", f"is one of {known}")


def check_network(args, sequential=False):
    key = "NetworkArgs.{}".format
    narrow = "is bfloat16: float16's gradients would have to be scaled, and it is not served"
    refuse(args.dtype_str != "bfloat16", key("dtype_str"), narrow)
    kernels = ("cutlass", "triton", "pytorch")
    refuse(args.kernel_backend not in kernels, key("kernel_backend"), f"is one of {kernels}")
    refuse(not args.is_causal, key("is_causal"), "histories that see their future cannot be served")
    candidates = "the server scores each candidate by itself, so groups have 1"
    refuse(args.target_group_size != 1, key("target_group_size"), candidates)
    dims = (args.item_embedding_dim, args.contextual_embedding_dim)
    alone = "tables share one width: give both embedding dims, and the same, or neither"
    refuse(max(dims) > 0 and dims[0] != dims[1], key("item_embedding_dim"), alone)
    refuse(sequential and max(dims) > 0, key("item_embedding_dim"), "is not for SequentialArgs")


def check_tensor_parallel(args):
    key = "TensorModelParallelArgs.tensor_model_parallel_size"
    refuse(args.tensor_model_parallel_size != 1, key, "there is one process, so it is 1")


def check_ranking(args, dataset_args):
    refuse(dataset_args.max_num_candidates < 1, "DatasetArgs.max_num_candidates",
           "ranking learns from candidates: give 1 or more")
    kinds = ("relu", "gelu")
    kind = args.prediction_head_act_type
    refuse(kind not in kinds, "RankingArgs.prediction_head_act_type", f"is one of {kinds}")
    outputs = args.prediction_head_arch[-1]
    refuse(args.num_tasks not in (1, outputs), "RankingArgs.num_tasks",
           f"the head has {outputs} outputs: give {outputs} for tasks, 1 for classes")
    metrics = tuple(metric.upper() for metric in args.eval_metrics)
    refuse(metrics != ("AUC",), "RankingArgs.eval_metrics", "ranking is measured by AUC")


def check_retrieval(args, network, dataset_args):
    check_retrieval_metrics(args)
    refuse(dataset_args.max_num_candidates != 0, "DatasetArgs.max_num_candidates",
           "retrieval has no candidates: leave it 0")
    refuse(network.item_embedding_dim > 0, "NetworkArgs.item_embedding_dim",
           "retrieval compares with items' rows, which are as wide as the model")
    refuse(args.num_negatives != -1 and args.num_negatives < 1, "RetrievalArgs.num_negatives",
           "is a count, or -1 for all different items of the batch")


def check_retrieval_metrics(args):
    known = re.compile(r"(HR|NDCG)@[1-9]\d*|MRR", re.IGNORECASE)
    for metric in args.eval_metrics:
        refuse(not known.fullmatch(metric), "RetrievalArgs.eval_metrics",
               f"{metric!r} is not HR@k, NDCG@k or MRR")


def check_processes(world_size):
    refuse(world_size != 1, "--nproc_per_node", "one process trains; give 1")
