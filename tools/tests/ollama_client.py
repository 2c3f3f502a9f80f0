"""Terrace through the real Ollama client: every call that has something to do here.

usage: ollama_client.py http://HOST:PORT
"""

import datetime
import json
import math
import urllib.request

import ollama

from checks import close, equal, raises, run, wait_until_idle

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0, "num_predict": 16}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "big": {"type": "boolean"}},
    "required": ["city", "big"],
    "additionalProperties": False,
}


def client(base):
    return ollama.Client(host=base, timeout=300)


def model(base):
    return client(base).list().models[0].model


def chat(base, **options):
    options = {"model": model(base), "messages": QUESTION, "options": GREEDY} | options
    return client(base).chat(**options)


def generate(base, **options):
    options = {"model": model(base), "prompt": QUESTION[0]["content"], "options": GREEDY} | options
    return client(base).generate(**options)


def refused(status, parts, call):
    equal(raises(ollama.ResponseError, parts, call).status_code, status)


def check_end(response):
    equal(response.done, True)
    assert response.done_reason in ("stop", "length"), response
    assert response.prompt_eval_count > 0 and response.eval_count > 0, response
    parts = response.load_duration, response.prompt_eval_duration, response.eval_duration
    assert all(part > 0 for part in parts) and response.total_duration >= sum(parts) - 3, response
    datetime.datetime.fromisoformat(response.created_at)


def test_list_show_and_ps(base):
    listed = client(base).list().models
    equal(len(listed), 1)
    assert listed[0].model.endswith(":latest") and listed[0].size > 10**6, listed
    assert listed[0].modified_at <= datetime.datetime.now(datetime.timezone.utc)
    plain = listed[0].model.removesuffix(":latest")
    for name in (plain, listed[0].model):
        shown = client(base).show(name)
        assert "<|im_start|>" in shown.template, shown.template
        equal(shown.capabilities, ["completion", "tools"])
        family = shown.modelinfo["general.architecture"]
        assert shown.modelinfo[f"{family}.context_length"] >= 2048, shown.modelinfo
    running = client(base).ps().models
    equal([one.model for one in running], [listed[0].model])
    equal(running[0].digest, listed[0].digest)
    assert running[0].size > listed[0].size and running[0].size_vram == 0, running
    assert running[0].expires_at.year > 2100, running


def test_chat(base):
    response = chat(base)
    equal((response.model, response.message.role), (model(base), "assistant"))
    assert "Paris" in response.message.content, response
    equal((response.message.tool_calls, response.message.thinking), (None, None))
    check_end(response)
    # With and without its tag.
    plain = chat(base, model=model(base).removesuffix(":latest"))
    equal(plain.message.content, response.message.content)


def test_chat_stream(base):
    *deltas, last = chat(base, stream=True)
    assert len(deltas) > 3, deltas
    assert all(delta.done is False and delta.eval_count is None for delta in deltas), deltas
    text = "".join(delta.message.content for delta in deltas)
    whole = chat(base)
    equal(text, whole.message.content)
    check_end(last)
    counts = [(response.prompt_eval_count, response.eval_count) for response in (last, whole)]
    equal(counts[0], counts[1])


def test_a_stream_that_is_left_frees_its_pages(base):
    stream = chat(base, stream=True, options={"temperature": 0, "num_predict": -1})
    next(stream)
    stream.close()
    wait_until_idle(base)


def test_generate(base):
    response = generate(base)
    assert "Paris" in response.response, response
    check_end(response)
    equal(response.response, chat(base).message.content)
    equal("".join(delta.response for delta in generate(base, stream=True)), response.response)
    raw = generate(base, prompt="The capital of France is", raw=True)
    assert "Paris" in raw.response and raw.prompt_eval_count < 10, raw
    with_system = generate(base, system="Answer in one word.")
    assert with_system.prompt_eval_count != response.prompt_eval_count, with_system


def test_a_model_is_looked_up_by_an_empty_request(base):
    equal(client(base).generate(model=model(base)).done_reason, "load")
    equal(client(base).chat(model=model(base)).done_reason, "load")
    refused(400, ["keep_alive"], lambda: client(base).generate(model=model(base), keep_alive=0))


def test_options(base):
    short = chat(base, options={"temperature": 0, "num_predict": 2, "num_thread": 1, "num_ctx": 512})
    equal((short.eval_count, short.done_reason), (2, "length"))
    stopped = chat(base, options={"temperature": 0, "stop": ["Paris"]})
    assert "Paris" not in stopped.message.content and stopped.done_reason == "stop", stopped
    drawn = [
        chat(base, options={"temperature": 2.0, "seed": 7, "num_predict": 8}, keep_alive="5m")
        for _ in range(2)
    ]
    equal(drawn[0].message.content, drawn[1].message.content)
    typed = chat(base, options=ollama.Options(temperature=0, num_predict=3, use_mmap=True))
    equal(typed.eval_count, 3)
    for options, parts in (
        ({"temperature": -1}, ["options.temperature is -1"]),
        ({"num_ctx": 10**9}, ["options.num_ctx is 1000000000", "context of"]),
        ({"mirostat": 2}, ["options.mirostat"]),
        ({"repeat_last_n": 64, "repeat_penalty": 1.1}, ["options.repeat_last_n is 64"]),
        ({"temprature": 1}, ["unknown field", "options.temprature"]),
    ):
        refused(400, parts, lambda options=options: chat(base, options=options))


def test_format(base):
    sampled = {"temperature": 1.5, "seed": 1, "num_predict": 100}
    for response in (
        chat(base, format=SCHEMA, options=sampled).message.content,
        generate(base, format=SCHEMA, options=sampled).response,
        "".join(p.message.content for p in chat(base, format=SCHEMA, options=sampled, stream=True)),
    ):
        found = json.loads(response)
        equal((set(found), type(found["city"]), type(found["big"])), ({"city", "big"}, str, bool))
    short = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    assert isinstance(json.loads(chat(base, format=short, options=sampled).message.content), dict)
    refused(400, ["format"], lambda: chat(base, format={"type": "nothing"}))


def add_two_numbers(a: int, b: int) -> int:
    """
    Add two numbers.

    Args:
      a: The first number
      b: The second number

    Returns:
      int: The sum
    """
    return a + b


def test_tools(base):
    """With a format, the response has that format or calls; which of the two depends on the seed."""
    ask = [{"role": "user", "content": "Add 2 and 3 with the function."}]
    called = None
    for seed in range(20):
        options = {"temperature": 1.0, "top_k": 0, "top_p": 1, "seed": seed, "num_predict": 200}
        form = {"enum": ["I cannot."]}
        response = chat(base, messages=ask, tools=[add_two_numbers], format=form, options=options)
        if response.message.tool_calls and response.done_reason == "stop":
            called = response.message
            deltas = list(chat(
                base, messages=ask, tools=[add_two_numbers], format=form, options=options,
                stream=True,
            ))
            calls = [c for delta in deltas for c in delta.message.tool_calls or ()]
            equal([c.function for c in calls], [c.function for c in called.tool_calls])
            break
    assert called, "no seed made the model call the function"
    function = called.tool_calls[0].function
    equal(function.name, "add_two_numbers")
    assert all(isinstance(value, int) for value in function.arguments.values()), function
    result = {"role": "tool", "tool_name": function.name, "content": "5"}
    response = chat(base, messages=[*ask, called, result], tools=[add_two_numbers])
    check_end(response)


def test_logprobs(base):
    response = chat(base, logprobs=True, top_logprobs=2)
    equal(len(response.logprobs), response.eval_count - (response.done_reason == "stop"))
    for token in response.logprobs:
        assert token.logprob <= 0 and len(token.top_logprobs) == 2, token
        equal(token.token, token.top_logprobs[0].token)


def test_embed(base):
    texts = ["The cat sleeps on the sofa.", "A kitten naps on the couch."]
    response = client(base).embed(model=model(base), input=texts)
    equal(len(response.embeddings), 2)
    for embedding in response.embeddings:
        close(math.fsum(x * x for x in embedding), 1.0, 1e-5)
    assert response.prompt_eval_count > 8 and response.total_duration > 0, response
    one = client(base).embed(model=model(base), input=texts[0], dimensions=32)
    equal(len(one.embeddings[0]), 32)
    old = client(base).embeddings(model=model(base), prompt=texts[0])
    equal(old.embedding, response.embeddings[0])
    long = "word " * 20_000
    cut = client(base).embed(model=model(base), input=long)
    assert cut.prompt_eval_count < 20_000, cut.prompt_eval_count
    whole = lambda: client(base).embed(model=model(base), input=long, truncate=False)
    refused(400, ["tokens"], whole)


def test_errors(base):
    refused(404, ["nobody"], lambda: chat(base, model="nobody"))
    refused(404, ["nobody"], lambda: client(base).show("nobody"))
    refused(404, ["nobody"], lambda: list(chat(base, model="nobody", stream=True)))
    refused(400, ["think"], lambda: chat(base, think=True))
    equal(chat(base, think=False).message.content, chat(base).message.content)
    picture = [{"role": "user", "content": "What is this?", "images": ["aGVsbG8="]}]
    refused(400, ["images"], lambda: chat(base, messages=picture))
    refused(400, ["context"], lambda: generate(base, context=[1, 2]))
    for change in (
        lambda: client(base).pull("a"),
        lambda: client(base).push("a"),
        lambda: client(base).create("a", from_="b"),
        lambda: client(base).copy("a", "b"),
        lambda: client(base).delete("a"),
    ):
        refused(403, ["chosen when it is started"], change)


def test_the_server_is_found_alive(base):
    for method in ("GET", "HEAD"):
        request = urllib.request.Request(base, method=method)
        with urllib.request.urlopen(request) as response:
            equal(response.status, 200)


if __name__ == "__main__":
    run(globals())
