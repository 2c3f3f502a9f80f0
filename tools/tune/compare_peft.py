#!/usr/bin/env python3
"""Hold training by Terrace to transformers with PEFT: the same branches, texts and steps, in f32.

    tools/tune/compare_peft.py                 50 steps of SmolLM2-135M
    tools/tune/compare_peft.py --steps 5 --json compared.json

Transformers widens the GGUF file to f32 and writes it as a folder, which both read. Terrace trains
branches beside queries and values on some of this repository's documents, and leaves its adapter after
every step. The first one has the branches' first matrices as they were drawn, for the second ones were
zeros: with them PEFT begins, and takes the same steps of AdamW. Losses may differ by 1e-3 in any step.
At the end PEFT loads the adapter that Terrace had before the last step, and must find that step's loss.
Needs `torch`, `transformers`, `peft`, `safetensors` and `gguf` 0.19.0.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from bench.say import say

# keys_values' defaults, without what would pull the first matrices away before PEFT has them.
RANK, ALPHA = 8, 16
LEARNING_RATE, MOST_NORM = 1e-3, 1.0
LOSS_MOST = 1e-3
CHARACTERS = 800


def main():
    options = parse_options()
    if not options.terrace.exists():
        sys.exit(f"{options.terrace} is missing: cargo build --release -p terrace")
    if options.steps < 2:
        sys.exit("--steps must be 2 or more: the adapter before the last step is compared")
    options.dir.mkdir(parents=True, exist_ok=True)
    folder = widened(options)
    texts = real_texts(options.texts)
    records = trained_by_terrace(options, folder, texts)
    losses, of_terraces_adapter = trained_by_peft(options, folder, texts, records)
    print(f"{'step':>4} {'Terrace':>10} {'PEFT':>10} {'apart':>9}")
    apart = [abs(record["loss"] - loss) for record, loss in zip(records, losses, strict=True)]
    for record, loss, far in zip(records, losses, apart):
        print(f"{record['step']:>4} {record['loss']:>10.6f} {loss:>10.6f} {far:>9.1e}")
    print(f"Terrace's last adapter but one, in PEFT: {of_terraces_adapter:.6f}")
    print(f"losses differ by at most {max(apart):.1e} ({LOSS_MOST:.0e} may pass)")
    if options.json:
        options.json.write_text(json.dumps({"terrace": records, "peft": losses}, indent=2) + "\n")
    if LOSS_MOST < max(apart) or 1e-3 < abs(of_terraces_adapter - losses[-1]):
        sys.exit("the losses are not the same")


def widened(options):
    """The GGUF file as a folder of transformers, in f32."""
    folder = options.dir / "model"
    if (folder / "model.safetensors").exists():
        return folder
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    say("widening the model")
    source = {"pretrained_model_name_or_path": options.model.parent, "gguf_file": options.model.name}
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
    wide = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # What comes from a GGUF file counts as quantised, and is not saved.
    del wide.config.quantization_config
    plain = AutoModelForCausalLM.from_config(wide.config, dtype=torch.float32)
    plain.load_state_dict(wide.state_dict())
    plain.save_pretrained(folder)
    return folder


def real_texts(count):
    """Of the documents, each a few paragraphs long."""
    text = "\n\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
    step = len(text) // count
    return [text[i * step : i * step + CHARACTERS - 37 * i] for i in range(count)]


def trained_by_terrace(options, folder, texts):
    """The log's lines."""
    out, data = options.dir / "out", options.dir / "texts.jsonl"
    shutil.rmtree(out, ignore_errors=True)
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    count = str(len(texts))
    command = [options.terrace, "finetune_long_lora", folder, "--out_dir", out, "--precision", "32-true"]
    command += ["--data", "JsonLines", "--data.path", data, "--data.val_split_fraction", "0"]
    command += ["--train.micro_batch_size", count, "--train.global_batch_size", count]
    command += ["--train.epochs", str(options.steps), "--train.save_interval", "1"]
    command += ["--train.max_grad_norm", str(MOST_NORM), "--train.lr_warmup_steps", "5"]
    command += ["--lora.r", str(RANK), "--lora.alpha", str(ALPHA), "--kv_cache.name", options.kv_cache]
    command += ["--optimizer.learning_rate", str(LEARNING_RATE), "--optimizer.weight_decay", "0"]
    say("training by Terrace")
    subprocess.run(command, check=True)
    with (out / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    numbers = ("loss", "learning_rate", "gradient_norm")
    return [{"step": int(row["step"])} | {name: float(row[name]) for name in numbers} for row in rows]


def trained_by_peft(options, folder, texts, records):
    """The loss of each step, and that of the model with Terrace's next to last adapter."""
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    say("training by PEFT")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = [tokenizer(text)["input_ids"] for text in texts]
    longest = max(map(len, batch))
    padded = lambda fill: torch.tensor([ids + [fill] * (longest - len(ids)) for ids in batch])
    inputs, labels = padded(0), padded(-100)
    mask = (labels != -100).long()

    def loss_of(model):
        # The mean of all targets.
        return model(input_ids=inputs, attention_mask=mask, labels=labels).loss

    base = lambda: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    lora = {"r": RANK, "lora_alpha": ALPHA, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    model = get_peft_model(base(), LoraConfig(**lora))
    first = load_file(options.dir / "out" / "step-00000001" / "adapter_model.safetensors")
    trained = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            trained[name.replace(".default", "")] = parameter
    assert trained.keys() == first.keys(), trained.keys() ^ first.keys()
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(first[name] if "lora_A" in name else torch.zeros_like(parameter))
    parameters = list(trained.values())
    optimiser = torch.optim.AdamW(parameters, weight_decay=0.0)
    losses = []
    for record in records:
        optimiser.param_groups[0]["lr"] = record["learning_rate"]
        optimiser.zero_grad()
        loss = loss_of(model)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, MOST_NORM)
        optimiser.step()
        losses.append(loss.item())
    before_last = options.dir / "out" / f"step-{records[-1]['step'] - 1:08}"
    with torch.no_grad():
        loaded = loss_of(PeftModel.from_pretrained(base(), before_last)).item()
    return losses, loaded


def parse_options():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
    model = Path.home() / ".cache/terrace/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--steps", type=int, default=50, help="of each program")
    add("--texts", type=int, default=4, help="that are learnt in every step")
    add("--kv-cache", default="lastrec-default", help="a cache of Terrace's; none evicts here")
    add("--model", type=Path, metavar="GGUF", default=model, help="default: that of `terrace pull`")
    add("--terrace", type=Path, default=target / "release/terrace", help="the program that is compared")
    add("--dir", type=Path, default=target / "compare_peft", help="for models and runs")
    add("--json", type=Path, metavar="FILE", help="write every step's numbers there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
