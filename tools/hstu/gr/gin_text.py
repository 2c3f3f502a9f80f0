"""The gin file that lies in a checkpoint, so that it says itself what model it is."""

from dataclasses import fields, replace

from gr.ranking_model import divisor_of

FILE = "config.gin"


def gin_text(*arguments):
    """A line for every value of the argument classes, but for those that are not given."""
    lines = []
    for args in arguments:
        values = {it.name: getattr(args, it.name) for it in fields(args)}
        name = type(args).__name__
        lines += [f"{name}.{key} = {value!r}" for key, value in values.items() if value is not None]
    return "\n".join(lines) + "\n"


def recsys_text(features, dataset, network, *others):
    """As recsys-examples is configured, with the divisor of sums that there was in training."""
    fixed = replace(network, scaling_seqlen=divisor_of(network, features, dataset))
    return gin_text(dataset, fixed, *others)


def generative_text(sizes):
    """As generative-recommenders is configured."""
    values = {
        "train_fn.main_module": "HSTU",
        "train_fn.max_sequence_length": sizes.most_items,
        "train_fn.gr_output_length": sizes.positions - sizes.most_items - 1,
        "train_fn.item_embedding_dim": sizes.dim,
        "train_fn.user_embedding_norm": "l2_norm",
        "train_fn.interaction_module_type": "DotProduct",
        "train_fn.item_l2_norm": True,
        "hstu_encoder.num_blocks": sizes.layers,
        "hstu_encoder.num_heads": sizes.heads,
        "hstu_encoder.dqk": sizes.head_dim,
        "hstu_encoder.dv": sizes.head_dim,
        "hstu_encoder.concat_ua": sizes.concat_ua,
    }
    return "".join(f"{key} = {value!r}\n" for key, value in values.items())
