"""Two models in one server: each outputs what it would alone.

usage: two_models.py http://HOST:PORT     (started with a second --model second=PATH)
"""

import concurrent.futures

import openai

from checks import equal, metrics, raises, run, wait_until_idle

PROMPTS = [f"{number} rivers of the earth are" for number in range(8)]


def client(base):
    return openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0)


def names(base):
    return [model.id for model in client(base).models.list().data]


def completion(base, model, prompt):
    completion = client(base).completions.create(
        model=model, prompt=prompt, temperature=0, max_tokens=12, logprobs=0
    )
    equal(completion.model, model)
    return completion.choices[0].logprobs.tokens


def test_together_as_alone(base):
    first, second = names(base)
    equal(second, "second")
    alone = [completion(base, first, prompt) for prompt in PROMPTS]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        both = [
            [pool.submit(completion, base, model, prompt) for prompt in PROMPTS]
            for model in (first, second)
        ]
        for futures in both:
            equal([future.result() for future in futures], alone)
    wait_until_idle(base)


def test_an_unknown_model_gets_the_list_of_known_ones(base):
    raises(openai.NotFoundError, names(base), lambda: completion(base, "third", "a"))


def test_numbers_are_kept_apart(base):
    assert metrics(base)["terrace_engine_running"] == 2, "both engines run"


if __name__ == "__main__":
    run(globals())
