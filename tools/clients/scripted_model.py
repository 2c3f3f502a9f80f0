"""Writes a tiny model whose outputs are known: python3 scripted_model.py FOLDER

A folder in Hugging Face's layout that `terrace serve` takes. Attention and MLP are zero, so the next
token depends on the last one alone. The chat template ends with one of three marker tokens; each is
followed by a token that is the whole scripted text, and that by the end of the text. Where a grammar
forbids the scripted text, or without a marker, bytes come in a fixed order of preference in which
JSON ends soon: a quote, then a closing brace or bracket, then the end.
"""

import json
import struct
import sys
from pathlib import Path

OUTPUT = '{"name":"Ann","age":7}'
SECOND_OUTPUT = '{"name":"Bob","age":8}'
CONTEXT_TOKENS = 8192
HIDDEN, MLP, HEADS = 64, 64, 4


def call(arguments, function="User"):
    return f'<tool_call>\n{{"name": "{function}", "arguments": {arguments}}}\n</tool_call>'


# What follows each marker; the second text where a grammar forbids the first.
SCRIPTS = {
    "<|answer|>": [OUTPUT],
    "<|call|>": [call(OUTPUT), call(OUTPUT, "PartialUser")],
    "<|calls|>": [f"{call(OUTPUT)}\n{call(SECOND_OUTPUT)}"],
}
TEXTS = [text for texts in SCRIPTS.values() for text in texts]
# Two calls are made where the last message asks for both; an output follows a tool's result.
CHAT_TEMPLATE = """{% if tools %}tools: {{ tools | tojson }} answer with <tool_call>
{% endif %}{% for message in messages %}{{ message.role }}: {{ message.content }}
{% endfor %}{% if add_generation_prompt %}{% if not tools or messages[-1].role == 'tool' %}<|answer|>\
{% elif 'both' in messages[-1].content %}<|calls|>{% else %}<|call|>{% endif %}{% endif %}"""

PAD, BOS, EOS, FIRST_BYTE = 0, 1, 2, 3
FIRST_MARKER = FIRST_BYTE + 256
FIRST_TEXT = FIRST_MARKER + len(SCRIPTS)
VOCAB = FIRST_TEXT + len(TEXTS)
SPECIAL = {"<pad>": PAD, "<s>": BOS, "</s>": EOS} | {
    marker: FIRST_MARKER + index for index, marker in enumerate(SCRIPTS)
}


def byte_names():
    """The visible character that byte-level tokenizers write for each byte."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {b: chr(b) for b in shown} | {b: chr(256 + index) for index, b in enumerate(hidden)}


def tokenizer():
    names = byte_names()
    vocab = dict(SPECIAL) | {names[byte]: FIRST_BYTE + byte for byte in range(256)}
    for index, text in enumerate(TEXTS):
        vocab["".join(names[byte] for byte in text.encode())] = FIRST_TEXT + index
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": id, "content": text, "special": True} | flags for text, id in SPECIAL.items()]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    byte_level["use_regex"] = True
    return {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "merges": [], "vocab": vocab},
    }


def state(token):
    """What the next token depends on: one of the markers or scripted texts, or anything else."""
    return max(0, token - FIRST_MARKER + 1)


def scores(token_state):
    """Of every token, behind a token of this state."""
    order = [FIRST_BYTE + byte for byte in b'"}]'] + [EOS] + [FIRST_BYTE + b for b in b"1,:"]
    found = [-60.0] * VOCAB
    for byte in range(ord("!"), ord("~") + 1):
        found[FIRST_BYTE + byte] = -byte / 8
    for rank, token in enumerate(order):
        found[token] = 60.0 - 8 * rank
    if token_state > len(SCRIPTS):
        found[EOS] = 120.0
    elif token_state > 0:
        for rank, text in enumerate(list(SCRIPTS.values())[token_state - 1]):
            found[FIRST_TEXT + TEXTS.index(text)] = 120.0 - 20 * rank
    return found


def tensors():
    embeddings = [[float(state(token) == column) for column in range(HIDDEN)]
                  for token in range(VOCAB)]
    # A row with a single one has this number there once it is normalised.
    normalised = HIDDEN ** 0.5
    states = [scores(number) for number in range(state(VOCAB - 1) + 1)]
    head = [[states[column][token] / normalised if column < len(states) else 0.0
             for column in range(HIDDEN)] for token in range(VOCAB)]
    zeros = lambda rows, columns: [[0.0] * columns] * rows
    layer = "model.layers.0."
    found = {"model.embed_tokens.weight": embeddings, "lm_head.weight": head}
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        found[f"{layer}self_attn.{name}.weight"] = zeros(HIDDEN, HIDDEN)
    for name in ("gate_proj", "up_proj"):
        found[f"{layer}mlp.{name}.weight"] = zeros(MLP, HIDDEN)
    found[f"{layer}mlp.down_proj.weight"] = zeros(HIDDEN, MLP)
    for name in (f"{layer}input_layernorm", f"{layer}post_attention_layernorm", "model.norm"):
        found[f"{name}.weight"] = [1.0] * HIDDEN
    return found


def safetensors(named):
    header, data = {}, b""
    for name, rows in named.items():
        shape = [len(rows), len(rows[0])] if isinstance(rows[0], list) else [len(rows)]
        numbers = [number for row in rows for number in row] if len(shape) == 2 else rows
        packed = struct.pack(f"<{len(numbers)}f", *numbers)
        offsets = [len(data), len(data) + len(packed)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
        data += packed
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + data


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB,
        "hidden_size": HIDDEN, "intermediate_size": MLP, "num_hidden_layers": 1,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "hidden_act": "silu",
        "max_position_embeddings": CONTEXT_TOKENS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "torch_dtype": "float32", "pad_token_id": PAD,
        "bos_token_id": BOS, "eos_token_id": EOS,
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
        "pad_token": "<pad>", "model_max_length": CONTEXT_TOKENS, "chat_template": CHAT_TEMPLATE,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "model.safetensors").write_bytes(safetensors(tensors()))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
