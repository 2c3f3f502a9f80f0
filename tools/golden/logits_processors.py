"""Writes `testdata/sampler/logits_processors.json`: scores as Hugging Face's own processors leave them.

Each case names a row (logits, prompt, output so far), the sampling options that are on, and the
resulting scores (null for -inf). The sampler's tests run the same options through their own code.

    pip install torch==2.15.0 transformers==5.22.2
    python tools/golden/logits_processors.py
"""

import json
import math
from pathlib import Path

import torch
from transformers import (
    ForcedEOSTokenLogitsProcessor,
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

SEED = 2024
FILE = Path(__file__).resolve().parents[2] / "testdata" / "sampler" / "logits_processors.json"

# Vocabulary, digits kept of each logit (0 makes many of them equal), lengths of prompt and output.
ROWS = [(10, 3, 4, 3), (80, 3, 20, 9), (400, 3, 60, 40), (80, 0, 12, 5), (80, 3, 1, 0)]

OPTIONS = [
    {"logit_bias": [[3, 2.5], [0, -100.0], [7, 0.125]]},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3},
    {"min_new_tokens": 4, "stop_ids": [2, 5]},
    {"min_new_tokens": 12, "stop_ids": [1]},
    {"forced_eos": 6, "max_new_tokens": 10},
    {"temperature": 0.3},
    {"temperature": 1.9},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": 50},
    {"top_p": 0.05},
    {"top_p": 0.6},
    {"top_p": 0.97},
    {"min_p": 0.02},
    {"min_p": 0.4},
    {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.05},
    {"repetition_penalty": 1.2, "no_repeat_ngram_size": 2, "temperature": 1.5, "top_p": 0.8},
    {
        "logit_bias": [[2, 4.0], [4, -3.0]],
        "repetition_penalty": 1.1,
        "no_repeat_ngram_size": 3,
        "min_new_tokens": 10,
        "stop_ids": [2, 3],
        "temperature": 0.6,
        "top_k": 25,
        "top_p": 0.95,
        "min_p": 0.01,
    },
    {"forced_eos": 9, "max_new_tokens": 4, "min_new_tokens": 9, "stop_ids": [9], "top_k": 5},
]


def main():
    torch.manual_seed(SEED)
    rows = [make_row(*shape) for shape in ROWS]
    cases = []
    for index, row in enumerate(rows):
        for options in OPTIONS:
            # Which of equal tokens top-p keeps is left open by torch's sort.
            if "top_p" in options and ROWS[index][1] == 0:
                continue
            cases.append({"row": index, "options": options, "scores": run(row, options)})
    FILE.parent.mkdir(parents=True, exist_ok=True)
    lines = lambda items: ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    FILE.write_text(f'{{"rows":[\n{lines(rows)}\n],"cases":[\n{lines(cases)}\n]}}\n')
    print(f"{len(cases)} cases, {FILE.stat().st_size} bytes in {FILE.name}")


def make_row(vocab, digits, prompt, output):
    """Tokens come from a few ids, so that n-grams repeat."""
    logits = [round(x, digits) for x in (torch.randn(vocab) * 3).tolist()]
    tokens = torch.randint(0, min(vocab, 8), (prompt + output,)).tolist()
    return {"logits": logits, "prompt": tokens[:prompt], "output": tokens[prompt:]}


def run(row, options):
    ids = torch.tensor([row["prompt"] + row["output"]])
    scores = torch.tensor([row["logits"]])
    for processor in processors(len(row["prompt"]), options):
        check_margin(processor, scores)
        scores = processor(ids, scores)
    return [None if score == -math.inf else float(f"{score:.7g}") for score in scores[0].tolist()]


def processors(prompt, options):
    """In the order of transformers' generate."""
    made = LogitsProcessorList()
    if "logit_bias" in options:
        made.append(SequenceBiasLogitsProcessor([[[id], bias] for id, bias in options["logit_bias"]]))
    if "repetition_penalty" in options:
        made.append(RepetitionPenaltyLogitsProcessor(options["repetition_penalty"]))
    if "no_repeat_ngram_size" in options:
        made.append(NoRepeatNGramLogitsProcessor(options["no_repeat_ngram_size"]))
    if "min_new_tokens" in options:
        made.append(
            MinNewTokensLengthLogitsProcessor(prompt, options["min_new_tokens"], options["stop_ids"])
        )
    if "forced_eos" in options:
        made.append(
            ForcedEOSTokenLogitsProcessor(prompt + options["max_new_tokens"], options["forced_eos"])
        )
    if "temperature" in options:
        made.append(TemperatureLogitsWarper(options["temperature"]))
    if "top_k" in options:
        made.append(TopKLogitsWarper(options["top_k"]))
    if "top_p" in options:
        made.append(TopPLogitsWarper(options["top_p"]))
    if "min_p" in options:
        made.append(MinPLogitsWarper(options["min_p"]))
    return made


def check_margin(processor, scores):
    """No token may be so near a limit that rounding decides whether it stays."""
    probabilities = scores[0].double().softmax(-1).sort().values
    if isinstance(processor, TopPLogitsWarper):
        distance = probabilities.cumsum(-1) - (1 - processor.top_p)
    elif isinstance(processor, MinPLogitsWarper):
        distance = probabilities / probabilities[-1] - processor.min_p
    else:
        return
    assert distance.abs().min() > 1e-5, "a token lies on the limit: choose another seed"


if __name__ == "__main__":
    main()
