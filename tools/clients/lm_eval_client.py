"""lm-eval's local-completions and local-chat-completions against the scripted model, with the tasks of
lm_eval_tasks. Nothing is fetched from a hub: the tokenizer is the model's own.

usage: lm_eval_client.py http://HOST:PORT MODEL_FOLDER
"""

import json
import os
import string
import sys
import tempfile
from pathlib import Path

from checks import MODEL, TEXT, equal, one

for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ[name] = "1"
os.environ["OPENAI_API_KEY"] = "none"

QUESTIONS = ["Who is it?", "And who was it?", "Is that all?"]


def tasks(folder, answer):
    """The task files with what they leave open, in a folder."""
    questions = folder / "questions.jsonl"
    questions.write_text("".join(json.dumps({"question": text}) + "\n" for text in QUESTIONS))
    for file in (Path(__file__).parent / "lm_eval_tasks").glob("*.yaml"):
        text = string.Template(file.read_text())
        (folder / file.name).write_text(text.substitute(QUESTIONS=questions, ANSWER=answer))
    return folder


def score(kind, route, task, metric, answer=TEXT, **options):
    """What lm-eval finds for one task."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    model_args = {"model": MODEL, "base_url": f"{sys.argv[1]}/v1/{route}", "num_concurrent": 2,
                  "max_retries": 1, "tokenizer": sys.argv[2], "tokenizer_backend": "huggingface",
                  "max_length": 8192}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_DATASETS_CACHE"] = folder
        manager = TaskManager(include_path=str(tasks(Path(folder), answer)), include_defaults=False)
        found = lm_eval.simple_evaluate(
            model=kind, model_args=model_args, tasks=[task], task_manager=manager, **options)
    return found["results"][task][f"{metric},none"]


def completions_loglikelihood():
    equal(score("local-completions", "completions", "scripted_choice", "acc"), 1.0)


def completions_generate_until():
    found = score("local-completions", "completions", "scripted_answer", "exact_match", '""""')
    equal(found, 1.0)


def chat_generate_until():
    found = score("local-chat-completions", "chat/completions", "scripted_answer", "exact_match",
                  apply_chat_template=True)
    equal(found, 1.0)


failed = 0
for name, check in (
    ("local-completions, log-likelihoods", completions_loglikelihood),
    ("local-completions, generate_until", completions_generate_until),
    ("local-chat-completions, generate_until", chat_generate_until),
):
    failed += not one("lm-eval", name, check)
sys.exit(1 if failed else 0)
