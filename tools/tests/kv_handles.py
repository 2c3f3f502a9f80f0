"""A handle through the OpenAI client: made by a plain POST, used by extra_body.

usage: kv_handles.py http://HOST:PORT
"""

import openai

from checks import client, equal, raises, run

ROUTE = "/kv_cache/handles"
SYSTEM = {"role": "system", "content": "You answer in one short sentence. " * 8}
QUESTION = {"role": "user", "content": "What is the capital of France?"}


def model(base):
    return client(base).models.list().data[0].id


def chat(base, messages, **more):
    create = client(base).chat.completions.create
    return create(model=model(base), messages=messages, max_tokens=8, temperature=0, **more)


def goes_on(handle):
    return {"extra_body": {"kv_cache": {"handle": handle}}}


def test_a_chat_goes_on_from_a_handle(base):
    handle = client(base).post(ROUTE, cast_to=dict, body={"messages": [SYSTEM], "name": "short"})
    equal(handle["object"], "kv_cache.handle")
    warm = chat(base, [SYSTEM, QUESTION], **goes_on("short"))
    equal(warm.kv_cache, {"handle": handle["id"], "crosses_arithmetic": False})
    assert warm.usage.prompt_tokens_details.cached_tokens >= handle["tokens"] - 1, warm.usage
    cold = chat(base, [SYSTEM, QUESTION], extra_body={"cache_prompt": False})
    equal(warm.choices[0].message.content, cold.choices[0].message.content)
    equal(warm.usage.prompt_tokens, cold.usage.prompt_tokens)
    chunks = list(chat(base, [SYSTEM, QUESTION], stream=True, **goes_on(handle["id"])))
    equal(chunks[-1].kv_cache["handle"], handle["id"])


def test_another_conversation_is_refused_with_the_position(base):
    body = {"messages": [SYSTEM], "name": "strict"}
    client(base).post(ROUTE, cast_to=dict, body=body)
    other = [{"role": "system", "content": "You answer at length."}, QUESTION]
    error = raises(
        openai.ConflictError,
        ["strict", "position"],
        lambda: chat(base, other, **goes_on("strict")),
    )
    equal(error.code, "prefix_mismatch")


def test_a_response_becomes_a_handle(base):
    made = chat(base, [QUESTION])
    handle = client(base).post(ROUTE, cast_to=dict, body={"response_id": made.id})
    equal(handle["tokens"], made.usage.total_tokens)
    raises(openai.NotFoundError, ["no-handle"], lambda: chat(base, [QUESTION], **goes_on("no-handle")))


if __name__ == "__main__":
    run(globals())
