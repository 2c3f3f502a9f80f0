"""Writes the golden case `testdata/llm/vicuna_linear`: a tiny random model with Vicuna 1.5-16k's settings.

The layout is that of the other cases of the set: the configuration in both styles, float32 weights,
and, for three prompts, the logits of every position and of a greedy continuation that ignores the end.

    pip install torch==2.15.0 transformers==5.22.2 safetensors
    python tools/golden/vicuna_linear.py
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

SEED = 1617
NEW_TOKENS = 16
PROMPT_LENGTHS = (5, 23, 48)
FOLDER = Path(__file__).resolve().parents[2] / "testdata" / "llm" / "vicuna_linear"

HUB_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 4096,
    "max_sequence_length": 16384,
    "rms_norm_eps": 1e-05,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    # Vicuna's files use the old key `type`, and name no rope_theta.
    "rope_scaling": {"factor": 4.0, "type": "linear"},
    "torch_dtype": "float32",
}


def build_model():
    torch.manual_seed(SEED)
    known = {key: value for key, value in HUB_CONFIG.items() if key not in ("rope_scaling", "torch_dtype")}
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    model = LlamaForCausalLM(LlamaConfig(**known, rope_parameters=rope)).float().eval()
    for parameter in model.parameters():
        # Larger than the usual start, so that the best token stands clear of the second.
        torch.nn.init.normal_(parameter, std=0.2) if parameter.dim() > 1 else None
    return model


@torch.no_grad()
def run_prompt(model, ids):
    text = list(ids)
    logits = model(torch.tensor([text])).logits[0]
    rows, greedy = [], []
    for _ in range(NEW_TOKENS):
        row = model(torch.tensor([text])).logits[0, -1]
        rows.append(row)
        greedy.append(int(row.argmax()))
        text.append(greedy[-1])
    best = torch.stack(rows).topk(2).values
    return logits, greedy, torch.stack(rows), float((best[:, 0] - best[:, 1]).min())


def main():
    model = build_model()
    generator = torch.Generator().manual_seed(SEED)
    tensors, prompts = {}, []
    for index, length in enumerate(PROMPT_LENGTHS):
        ids = [1] + torch.randint(3, 320, (length - 1,), generator=generator).tolist()
        logits, greedy, rows, margin = run_prompt(model, ids)
        tensors[f"p{index}.input_ids"] = torch.tensor(ids)
        tensors[f"p{index}.logits"] = logits.contiguous()
        tensors[f"p{index}.greedy_ids"] = torch.tensor(greedy)
        tensors[f"p{index}.greedy_logits"] = rows.contiguous()
        prompts.append({"input_ids": ids, "greedy_ids": greedy, "min_top1_top2_margin": margin})
    FOLDER.mkdir(parents=True, exist_ok=True)
    save_file(tensors, FOLDER / "golden.safetensors")
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, FOLDER / "model.safetensors")
    (FOLDER / "config.json").write_text(json.dumps(HUB_CONFIG, indent=1))
    model.config.architectures = HUB_CONFIG["architectures"]
    model.config.to_json_file(FOLDER / "config_v5.json")
    (FOLDER / "golden.json").write_text(json.dumps({"seed": SEED, "prompts": prompts}, indent=1))
    print("smallest margin", min(prompt["min_top1_top2_margin"] for prompt in prompts))


if __name__ == "__main__":
    main()
