"""Writes `testdata/adapters`: adapters of PEFT, and what models with them compute.

Each case is a folder as PEFT writes it, for a tiny model of `testdata/llm`, with `golden.safetensors`:
for two prompts the logits of every position and of a greedy continuation that ignores the end.

Of two cases the folder is Terrace's own, and PEFT computes what it makes of it: `cargo test -p
terrace-model adapters` leaves them below the target folder. Of the kind that PEFT has not, branches
with a norm, the case is computed in plain PyTorch.

    pip install torch==2.15.0 transformers==5.23.0 peft==0.21.2 safetensors
    python tools/golden/adapters.py --written target/tmp/adapters
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "testdata" / "llm"
FOLDER = ROOT / "testdata" / "adapters"

SEED = 1906
NEW_TOKENS = 6
PROMPT_LENGTHS = (5, 14)
LEAST_MARGIN = 0.02
LEAST_CHANGE = 0.5
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# The base model, and PEFT's options.
CASES = {
    "lora": ("llama_plain", {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}),
    "lora_patterns": (
        "llama_plain",
        {
            "r": 4,
            "lora_alpha": 6,
            "use_rslora": True,
            "target_modules": [*ALL, "lm_head"],
            "exclude_modules": ["layers.2.mlp.up_proj"],
            "rank_pattern": {"q_proj": 6, r"layers.1.mlp.(gate|down)_proj": 2},
            "alpha_pattern": {"v_proj": 9},
        },
    ),
    "lora_layers": (
        "qwen2",
        {"r": 3, "lora_alpha": 10, "target_modules": ["k_proj", "mlp.up_proj"], "layers_to_transform": [1]},
    ),
    "lora_tied_head": ("llama_tied_bias", {"r": 4, "lora_alpha": 8, "target_modules": r".*\.o_proj|lm_head"}),
    "dora": ("qwen2", {"r": 4, "lora_alpha": 8, "use_dora": True, "target_modules": ALL}),
}
RMS_NORM = ("rms_norm", "qwen2", {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "o_proj", "up_proj"]})
WRITTEN = {"written_lora": "llama_plain", "written_dora": "llama_plain"}
NORM_EPS = 1e-8


def base_model(name):
    return AutoModelForCausalLM.from_pretrained(MODELS / name, dtype=torch.float32).eval()


def randomise(model):
    """Gives an adapter numbers that change the model's outputs, without drowning them."""
    for name, parameter in model.named_parameters():
        if "lora_A" in name or "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.15)
        elif "lora_magnitude_vector" in name:
            parameter.data *= torch.empty_like(parameter).uniform_(0.6, 1.5)


def write_adapter(folder, base, options):
    torch.manual_seed(SEED)
    model = get_peft_model(base_model(base), LoraConfig(task_type="CAUSAL_LM", **options))
    with torch.no_grad():
        randomise(model)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, save_embedding_layers=False)
    (folder / "README.md").unlink()
    config = folder / "adapter_config.json"
    fields = json.loads(config.read_text())
    fields["base_model_name_or_path"] = base
    # PEFT writes a set in any order.
    if isinstance(fields["target_modules"], list):
        fields["target_modules"].sort()
    config.write_text(json.dumps(fields, indent=2, sort_keys=True))


def with_norms(model, folder):
    """Branches whose outputs go through a norm, beside the products of a plain model."""
    fields = json.loads((folder / "adapter_config.json").read_text())
    tensors = load_file(folder / "adapter_model.safetensors")
    scale = fields["lora_alpha"] / fields["r"]
    for name, module in model.named_modules():
        branch = {
            key.removeprefix(f"base_model.model.{name}."): value
            for key, value in tensors.items()
            if key.startswith(f"base_model.model.{name}.lora_")
        }
        if branch:
            module.register_forward_hook(lambda _, x, out, branch=branch: out + normed(x[0], branch, scale))
    return model


def normed(x, branch, scale):
    added = scale * (x @ branch["lora_A.weight"].T @ branch["lora_B.weight"].T)
    return added * torch.rsqrt(added.pow(2).mean(-1, keepdim=True) + NORM_EPS) * branch["lora_norm.weight"]


def write_rms_norm(folder, base, options):
    """A folder of PEFT's, with the norms and the field that Terrace adds."""
    write_adapter(folder, base, options)
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    for name in [name for name in tensors if "lora_B" in name]:
        weight = torch.empty(tensors[name].shape[0]).uniform_(0.1, 0.6)
        tensors[name.replace("lora_B", "lora_norm")] = weight
    save_file(tensors, path, metadata={"format": "pt"})
    config = folder / "adapter_config.json"
    fields = json.loads(config.read_text()) | {"terrace_lora_kind": "rms_norm"}
    config.write_text(json.dumps(fields, indent=2, sort_keys=True))


@torch.no_grad()
def write_golden(folder, base, model):
    model, plain = model.eval(), base_model(base)
    for seed in range(SEED, SEED + 50):
        tensors, margin, change = run_prompts(model, plain, torch.Generator().manual_seed(seed))
        if LEAST_MARGIN < margin:
            break
    print(f"{folder.name}: logits change by up to {change:.2f}, least margin {margin:.3f}, seed {seed}")
    assert LEAST_MARGIN < margin, "no seed gives clear tokens"
    assert LEAST_CHANGE < change, "the adapter must be seen"
    save_file(tensors, folder / "golden.safetensors")


def run_prompts(model, plain, generator):
    tensors, margins, changes = {}, [], []
    for index, length in enumerate(PROMPT_LENGTHS):
        ids = [1] + torch.randint(3, 320, (length - 1,), generator=generator).tolist()
        text, rows = list(ids), []
        logits = model(torch.tensor([ids])).logits[0]
        changes.append(float((logits - plain(torch.tensor([ids])).logits[0]).abs().max()))
        for _ in range(NEW_TOKENS):
            rows.append(model(torch.tensor([text])).logits[0, -1])
            text.append(int(rows[-1].argmax()))
        best = torch.stack(rows).topk(2).values
        margins.append(float((best[:, 0] - best[:, 1]).min()))
        tensors[f"p{index}.input_ids"] = torch.tensor(ids)
        tensors[f"p{index}.logits"] = logits.contiguous()
        tensors[f"p{index}.greedy_ids"] = torch.tensor(text[length:])
        tensors[f"p{index}.greedy_logits"] = torch.stack(rows).contiguous()
    return tensors, min(margins), min(changes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--written", type=Path, help="where the tests have left Terrace's own adapters")
    args = parser.parse_args()
    for name, (base, options) in CASES.items():
        write_adapter(FOLDER / name, base, options)
        write_golden(FOLDER / name, base, PeftModel.from_pretrained(base_model(base), FOLDER / name))
    name, base, options = RMS_NORM
    write_rms_norm(FOLDER / name, base, options)
    write_golden(FOLDER / name, base, with_norms(base_model(base), FOLDER / name))
    for name, base in WRITTEN.items() if args.written else ():
        shutil.rmtree(FOLDER / name, ignore_errors=True)
        shutil.copytree(args.written / name, FOLDER / name)
        write_golden(FOLDER / name, base, PeftModel.from_pretrained(base_model(base), FOLDER / name))


if __name__ == "__main__":
    main()
