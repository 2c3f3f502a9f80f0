"""Terrace through the real OpenAI client: every option that both sides know.

usage: openai_client.py http://HOST:PORT
"""

import json
import math
import urllib.error
import urllib.request

import openai

from checks import client, close, equal, metrics, model, raises, run, wait_until_idle

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
OPENING = "The capital of France is"


GREEDY = {"max_tokens": 8, "temperature": 0}


def chat(base, **options):
    options = {"model": model(base), "messages": QUESTION} | GREEDY | options
    return client(base).chat.completions.create(**options)


def complete(base, **options):
    options = {"model": model(base), "prompt": OPENING} | GREEDY | options
    return client(base).completions.create(**options)


def post(base, path, body):
    request = urllib.request.Request(
        f"{base}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def test_models(base):
    models = client(base).models.list().data
    equal(len(models), 1)
    equal(models[0].object, "model")
    one = client(base).models.retrieve(models[0].id)
    equal(one.id, models[0].id)
    assert one.created > 0
    raises(openai.NotFoundError, ["nobody"], lambda: client(base).models.retrieve("nobody"))


def test_chat(base):
    response = chat(base)
    equal(response.object, "chat.completion")
    equal(response.model, model(base))
    assert response.id.startswith("chatcmpl-") and response.created > 0
    equal([choice.index for choice in response.choices], [0])
    message = response.choices[0].message
    equal(message.role, "assistant")
    assert "Paris" in message.content, message.content
    assert response.choices[0].finish_reason in ("stop", "length")
    equal(response.choices[0].logprobs, None)


def test_chat_ends_by_itself(base):
    response = chat(base, max_tokens=64)
    equal(response.choices[0].finish_reason, "stop")
    assert "<|im_end|>" not in response.choices[0].message.content


def test_chat_content_in_parts(base):
    parts = [{"type": "text", "text": text} for text in ("What is the capital", " of France?")]
    split = chat(base, messages=[{"role": "user", "content": parts}])
    equal(split.choices[0].message.content, chat(base).choices[0].message.content)


def test_chat_stream(base):
    chunks = list(chat(base, stream=True))
    for chunk in chunks:
        equal((chunk.object, chunk.id), ("chat.completion.chunk", chunks[0].id))
        equal(chunk.usage, None)
    equal(chunks[0].choices[0].delta.role, "assistant")
    equal(chunks[-1].choices[0].finish_reason, chat(base).choices[0].finish_reason)
    deltas = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert len(deltas) >= 5, f"not token by token: {deltas}"
    equal("".join(deltas), chat(base).choices[0].message.content)


def test_chat_stream_usage(base):
    chunks = list(chat(base, stream=True, stream_options={"include_usage": True}))
    equal([chunk.usage for chunk in chunks[:-1]], [None] * (len(chunks) - 1))
    equal(chunks[-1].choices, [])
    equal(chunks[-1].usage, chat(base).usage)


def test_completion(base):
    response = complete(base)
    equal(response.object, "text_completion")
    assert response.id.startswith("cmpl-")
    assert "Paris" in response.choices[0].text, response.choices[0].text
    equal(response.choices[0].finish_reason, "length")


def test_completion_of_several_prompts(base):
    prompts = [OPENING, "One, two, three,"]
    together = complete(base, prompt=prompts)
    equal([choice.index for choice in together.choices], [0, 1])
    apart = [complete(base, prompt=prompt).choices[0].text for prompt in prompts]
    equal([choice.text for choice in together.choices], apart)


def test_completion_of_tokens(base):
    tokens = post(base, "/tokenize", {"prompt": OPENING})["tokens"]
    text = complete(base).choices[0].text
    equal(complete(base, prompt=tokens).choices[0].text, text)
    equal([c.text for c in complete(base, prompt=[tokens, tokens]).choices], [text, text])


def test_completion_stream(base):
    deltas = [chunk.choices[0].text for chunk in complete(base, stream=True)]
    assert len(deltas) >= 5, f"not token by token: {deltas}"
    equal("".join(deltas), complete(base).choices[0].text)


def test_completion_default_length(base):
    response = complete(base, max_tokens=openai.NOT_GIVEN, extra_body={"ignore_eos": True})
    equal(response.usage.completion_tokens, 16)


def test_chat_logprobs(base):
    choice = chat(base, logprobs=True, top_logprobs=3).choices[0]
    tokens = choice.logprobs.content
    equal("".join(token.token for token in tokens), choice.message.content)
    for token in tokens:
        equal(bytes(token.bytes).decode(), token.token)
        equal(len(token.top_logprobs), 3)
        best = token.top_logprobs[0]
        equal((best.token, best.logprob), (token.token, token.logprob))
        ranked = [alternative.logprob for alternative in token.top_logprobs]
        equal(ranked, sorted(ranked, reverse=True))
        assert sum(math.exp(logprob) for logprob in ranked) <= 1.0001, ranked


def test_chat_stream_logprobs(base):
    whole = chat(base, logprobs=True).choices[0].logprobs.content
    parts = [chunk.choices[0].logprobs for chunk in chat(base, logprobs=True, stream=True)]
    equal([token for part in parts if part for token in part.content], whole)


def test_completion_logprobs(base):
    choice = complete(base, logprobs=2).choices[0]
    lists = choice.logprobs
    equal("".join(lists.tokens), choice.text)
    equal(lists.text_offset[0], 0)
    for token, logprob, top, offset in zip(
        lists.tokens, lists.token_logprobs, lists.top_logprobs, lists.text_offset
    ):
        equal(choice.text[offset : offset + len(token)], token)
        equal(top[token], logprob)
        equal(max(top.values()), logprob)
        assert logprob <= 0, logprob


def test_both_apis_give_the_same_logprobs(base):
    rendered = post(base, "/tokenize", {"messages": QUESTION})["tokens"]
    plain = complete(base, prompt=rendered, logprobs=0).choices[0].logprobs.token_logprobs
    chatted = [t.logprob for t in chat(base, logprobs=True).choices[0].logprobs.content]
    for a, b in zip(plain, chatted, strict=True):
        close(a, b, 1e-4)


def test_echo(base):
    response = complete(base, echo=True)
    equal(response.choices[0].text, OPENING + complete(base).choices[0].text)
    streamed = [chunk.choices[0].text for chunk in complete(base, echo=True, stream=True)]
    equal("".join(streamed), response.choices[0].text)


def test_echo_scores_the_prompt(base):
    """A prompt's own log-probabilities are those of generating it."""
    made = complete(base, logprobs=0).choices[0]
    scored = complete(base, prompt=OPENING + made.text, echo=True, max_tokens=0, logprobs=0)
    lists = scored.choices[0].logprobs
    equal(scored.choices[0].text, OPENING + made.text)
    equal(scored.usage.completion_tokens, 0)
    equal(lists.token_logprobs[0], None)
    new = len(made.logprobs.tokens)
    equal(lists.tokens[-new:], made.logprobs.tokens)
    for a, b in zip(lists.token_logprobs[-new:], made.logprobs.token_logprobs, strict=True):
        close(a, b, 0.05)


def test_stop(base):
    whole = complete(base, prompt="One, two, three,", max_tokens=12).choices[0].text
    assert "five" in whole, whole
    stopped = complete(base, prompt="One, two, three,", max_tokens=12, stop=["nothing", "five"])
    equal(stopped.choices[0].text, whole.split("five")[0])
    equal(stopped.choices[0].finish_reason, "stop")
    streamed = complete(base, prompt="One, two, three,", max_tokens=12, stop="five", stream=True)
    equal("".join(chunk.choices[0].text for chunk in streamed), whole.split("five")[0])


def test_stop_token(base):
    first = post(base, "/tokenize", {"prompt": complete(base).choices[0].text})["tokens"][1]
    response = complete(base, extra_body={"stop_token_ids": [first]})
    equal(response.choices[0].finish_reason, "stop")
    equal(response.usage.completion_tokens, 2)


def test_three_choices(base):
    response = chat(base, n=3, temperature=1, seed=5)
    equal([choice.index for choice in response.choices], [0, 1, 2])
    texts = [choice.message.content for choice in response.choices]
    assert len(set(texts)) > 1, f"three times the same: {texts}"
    streamed = ["", "", ""]
    for chunk in chat(base, n=3, temperature=1, seed=5, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    equal(streamed, texts)


def test_a_seed_repeats_the_response(base):
    def draw(seed):
        response = chat(base, temperature=1.5, seed=seed, max_tokens=16)
        return response.choices[0].message.content

    first = draw(7)
    equal(draw(7), first)
    assert any(draw(seed) != first for seed in (8, 9, 10)), "the seed makes no difference"


def test_max_tokens_and_usage(base):
    ignore_eos = {"ignore_eos": True}
    newer_name = {"max_tokens": openai.NOT_GIVEN, "max_completion_tokens": 5}
    for options in ({"max_tokens": 5}, newer_name):
        response = chat(base, extra_body=ignore_eos, **options)
        equal(response.choices[0].finish_reason, "length")
        usage = response.usage
        equal(usage.completion_tokens, 5)
        equal(usage.prompt_tokens, post(base, "/tokenize", {"messages": QUESTION})["count"])
        equal(usage.total_tokens, usage.prompt_tokens + 5)


def test_logit_bias(base):
    paris = post(base, "/tokenize", {"prompt": " Paris"})["tokens"]
    equal(len(paris), 1)
    response = complete(base, logit_bias={str(paris[0]): -100})
    assert not response.choices[0].text.startswith(" Paris"), response.choices[0].text


def test_tokenize_and_back(base):
    text = "Grüße, 世界! 123"
    tokens = post(base, "/tokenize", {"text": text})
    equal(tokens["count"], len(tokens["tokens"]))
    assert tokens["max_model_len"] > 0
    back = post(base, "/detokenize", {"tokens": tokens["tokens"]})
    equal((back["text"], back["prompt"]), (text, text))


def test_bad_options_are_bad_requests(base):
    error = raises(openai.BadRequestError, ["temperature"], lambda: chat(base, temperature=-1))
    equal((error.status_code, error.param), (400, "temperature"))
    equal(error.type, "invalid_request_error")
    raises(openai.BadRequestError, ["top_p"], lambda: complete(base, top_p=7))
    raises(openai.BadRequestError, ["n is 0"], lambda: complete(base, n=0))
    raises(openai.BadRequestError, ["messages is empty"], lambda: chat(base, messages=[]))
    raises(openai.BadRequestError, ["temprature"], lambda: chat(base, extra_body={"temprature": 1}))
    function = {"name": "now", "parameters": {}}
    raises(openai.BadRequestError, ["tools"], lambda: chat(base, functions=[function]))
    wants_xml = {"type": "xml"}
    raises(openai.BadRequestError, ["xml"], lambda: chat(base, response_format=wants_xml))


def test_unknown_model_is_not_found(base):
    error = raises(openai.NotFoundError, ["gpt-x", model(base)], lambda: chat(base, model="gpt-x"))
    equal(error.code, "model_not_found")


def test_a_long_prompt_is_refused_with_numbers(base):
    limit = post(base, "/tokenize", {"prompt": "a"})["max_model_len"]
    prompt = [100] * (limit + 5)
    error = raises(openai.BadRequestError, [str(limit + 5)], lambda: complete(base, prompt=prompt))
    equal(error.code, "context_length_exceeded")


def test_the_model_may_be_left_out(base):
    body = {"prompt": OPENING, "max_tokens": 4, "temperature": 0}
    response = post(base, "/v1/completions", body)
    equal(response["model"], model(base))


def test_bad_json_says_where(base):
    request = urllib.request.Request(
        f"{base}/v1/completions", b'{"prompt": "a",\n "n": }', {"Content-Type": "application/json"}
    )
    try:
        urllib.request.urlopen(request)
        raise AssertionError("bad JSON was taken")
    except urllib.error.HTTPError as error:
        equal(error.code, 400)
        message = json.load(error)["error"]["message"]
        assert "line 2 column" in message, message


LONG = {"max_tokens": 900, "extra_body": {"ignore_eos": True}}


def test_leaving_a_stream_frees_its_pages(base):
    wait_until_idle(base)
    stream = complete(base, stream=True, **LONG)
    for _ in range(3):
        next(stream)
    busy = metrics(base)
    equal(busy["terrace_requests_running"], 1)
    assert busy["terrace_kv_cache_pages_free"] < busy["terrace_kv_cache_pages"], busy
    before = busy["terrace_generation_tokens_total"]
    stream.close()
    idle = wait_until_idle(base)
    made = idle["terrace_generation_tokens_total"] - before
    assert made < 800, f"the response went on for {made} tokens"


def test_giving_up_on_a_whole_response_frees_its_pages(base):
    before = wait_until_idle(base)["terrace_generation_tokens_total"]
    raises(openai.APITimeoutError, [], lambda: complete(base, timeout=0.5, **LONG))
    made = wait_until_idle(base)["terrace_generation_tokens_total"] - before
    assert made < 800, f"the response went on for {made} tokens"


if __name__ == "__main__":
    run(globals())
