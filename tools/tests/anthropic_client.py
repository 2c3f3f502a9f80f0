"""Terrace through the real Anthropic client.

usage: anthropic_client.py http://HOST:PORT     (started with --api-key secret)
"""

import functools
import json
import urllib.request

import anthropic

from checks import equal, raises, run

KEY = "secret"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]

# The client has no parameters for these.
GREEDY = {"temperature": 0}

WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"enum": [1, 2, 3]}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}


@functools.cache
def client(base, key=KEY):
    return anthropic.Anthropic(base_url=base, api_key=key, max_retries=0, timeout=300)


@functools.cache
def model(base):
    request = urllib.request.Request(f"{base}/v1/models", headers={"x-api-key": KEY})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["data"][0]["id"]


def options(base, extra_body=None, **options):
    defaults = {"model": model(base), "messages": QUESTION, "max_tokens": 24}
    return defaults | options | {"extra_body": GREEDY | (extra_body or {})}


def create(base, **given):
    return client(base).messages.create(**options(base, **given))


def stream(base, **given):
    """The final message, and the events that built it."""
    with client(base).messages.stream(**options(base, **given)) as events:
        seen = list(events)
        return events.get_final_message(), seen


def count(base, **given):
    given = {"model": model(base), "messages": QUESTION} | given
    return client(base).messages.count_tokens(**given).input_tokens


def prompt_tokens(message):
    """Computed or found in the prefix cache."""
    return message.usage.input_tokens + message.usage.cache_read_input_tokens


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


def blocks(message):
    """The content without what differs from run to run."""
    return [block.model_dump(exclude={"id", "parsed_output"}) for block in message.content]


def test_create(base):
    message = create(base)
    assert message.id.startswith("msg_"), message.id
    equal((message.type, message.role, message.model), ("message", "assistant", model(base)))
    assert "Paris" in text(message), message
    equal((message.stop_reason, message.stop_sequence), ("end_turn", None))
    equal(prompt_tokens(message), count(base))
    assert 0 < message.usage.output_tokens <= 24, message.usage
    assert message._request_id, "the request has no id"


def test_max_tokens(base):
    message = create(base, max_tokens=2)
    equal((message.stop_reason, message.usage.output_tokens), ("max_tokens", 2))


def test_stream(base):
    whole = create(base)
    message, seen = stream(base)
    equal(blocks(message), blocks(whole))
    equal(message.stop_reason, whole.stop_reason)
    equal(message.usage.output_tokens, whole.usage.output_tokens)
    equal(prompt_tokens(message), prompt_tokens(whole))
    equal(text(whole), "".join(event.text for event in seen if event.type == "text"))
    kinds = [event.type for event in seen if event.type not in ("text", "content_block_delta")]
    want = ["message_start", "content_block_start", "content_block_stop", "message_delta"]
    equal(kinds, want + ["message_stop"])
    with client(base).messages.stream(**options(base)) as events:
        equal("".join(events.text_stream), text(whole))


def test_raw_events(base):
    events = client(base).messages.create(stream=True, **options(base))
    kinds = [event.type for event in events]
    equal((kinds[0], kinds[-2], kinds[-1]), ("message_start", "message_delta", "message_stop"))


def test_system(base):
    asked = [{"role": "user", "content": "What is your name?"}]
    system = "Your name is Bob. You are a pirate."
    as_text = create(base, messages=asked, system=system)
    assert text(as_text) != text(create(base, messages=asked)), "it makes no difference"
    cached = {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}
    equal(blocks(create(base, messages=asked, system=[cached])), blocks(as_text))
    equal(count(base, messages=asked, system=system), prompt_tokens(as_text))


def test_content_blocks_and_earlier_turns(base):
    earlier = [
        {"role": "user", "content": [{"type": "text", "text": part} for part in ("I am ", "Ann.")]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello Ann."}]},
    ]
    message = create(base, messages=earlier + QUESTION)
    assert prompt_tokens(message) > count(base) + 10, message.usage
    assert "Paris" in text(message), message


def test_prefill(base):
    prefill = QUESTION + [{"role": "assistant", "content": "The capital of France is"}]
    message = create(base, messages=prefill)
    assert text(message).lstrip().startswith("Paris"), message


def test_stop_sequences(base):
    listed = [{"role": "user", "content": "Say: one, two, three, four, five."}]
    whole = text(create(base, messages=listed))
    word = "three"
    assert word in whole, whole
    message = create(base, messages=listed, stop_sequences=["nothing", word])
    equal((message.stop_reason, message.stop_sequence), ("stop_sequence", word))
    equal(text(message), whole.split(word)[0])
    streamed, _ = stream(base, messages=listed, stop_sequences=["nothing", word])
    equal((streamed.stop_reason, streamed.stop_sequence), ("stop_sequence", word))
    equal(blocks(streamed), blocks(message))


def test_tool_use_round_trip(base):
    asked = [{"role": "user", "content": "What is the weather in Rome in the next 2 days?"}]
    # A model this small would go on calling.
    choice = {"type": "any", "disable_parallel_tool_use": True}
    given = {"tools": [WEATHER], "tool_choice": choice, "max_tokens": 200}
    called = create(base, messages=asked, **given)
    equal(called.stop_reason, "tool_use")
    call = called.content[0]
    equal((call.type, call.name), ("tool_use", "get_weather"))
    assert call.id.startswith("toolu_"), call.id
    assert call.input["city"] in ("Paris", "Rome") and call.input["days"] in (1, 2, 3), call
    streamed, seen = stream(base, messages=asked, **given)
    equal(blocks(streamed), blocks(called))
    assert any(event.type == "input_json" for event in seen), "the input did not come in deltas"

    sunny = [{"type": "text", "text": "Sunny."}]
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": sunny}
        for block in called.content
        if block.type == "tool_use"
    ]
    answered = asked + [
        {"role": "assistant", "content": called.content},
        {"role": "user", "content": results},
    ]
    response = create(base, messages=answered, tools=[WEATHER])
    assert text(response), response
    failed = [result | {"is_error": True} for result in results]
    answered[-1] = {"role": "user", "content": failed}
    assert create(base, messages=answered, tools=[WEATHER]).content


def test_one_tool_and_none(base):
    other = WEATHER | {"name": "get_time"}
    named = {"type": "tool", "name": "get_time"}
    message = create(base, tools=[WEATHER, other], tool_choice=named, max_tokens=200)
    equal([block.name for block in message.content], ["get_time"])
    several = create(base, tools=[WEATHER, other], tool_choice={"type": "any"}, max_tokens=200)
    equal({block.type for block in several.content}, {"tool_use"})
    none = create(base, tools=[WEATHER], tool_choice={"type": "none"})
    equal(blocks(none), blocks(create(base)))


def test_output_of_a_schema(base):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    }
    config = {"format": {"type": "json_schema", "schema": schema}}
    message = create(base, output_config=config, max_tokens=60)
    equal(list(json.loads(text(message))), ["city"])


def test_thinking_is_accepted(base):
    # This model does not think, and its template has no switch for it.
    for thinking in ({"type": "disabled"}, {"type": "enabled", "budget_tokens": 1024}):
        equal(blocks(create(base, thinking=thinking)), blocks(create(base)))
    thought = {"type": "thinking", "thinking": "They ask for a capital.", "signature": ""}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "Hello."}]}
    assert create(base, messages=[QUESTION[0], said, QUESTION[0]]).content


def test_count_tokens(base):
    plain = count(base)
    assert plain > 5, plain
    assert count(base, tools=[WEATHER]) > plain + 20
    called = create(base, tools=[WEATHER], tool_choice={"type": "auto"})
    equal(count(base, tools=[WEATHER]), prompt_tokens(called))


def test_extensions(base):
    message = create(base, extra_body={"guided_choice": ["yes", "no"]})
    assert text(message) in ("yes", "no"), message
    drawn = {"temperature": 1.5, "seed": 7, "min_p": 0.01}
    equal(blocks(create(base, extra_body=drawn)), blocks(create(base, extra_body=drawn)))


def test_errors_are_the_clients_own(base):
    def refused(kind, parts, **given):
        error = raises(kind, parts, lambda: create(base, **given))
        equal(error.body["type"], "error")
        equal(error.request_id, error.body["request_id"])
        return error.body["error"]["type"]

    bad = anthropic.BadRequestError
    equal(refused(bad, ["max_tokens is 0"], max_tokens=0), "invalid_request_error")
    refused(bad, ["temprature"], extra_body={"temprature": 1})
    refused(bad, ["messages is empty"], messages=[])
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    pictured = [{"role": "user", "content": [image]}]
    refused(bad, ["messages[0].content[0]", "text only"], messages=pictured)
    search = {"type": "web_search_20250305", "name": "web_search"}
    refused(bad, ["web_search_20250305"], tools=[search])
    equal(refused(anthropic.NotFoundError, ["claude-x"], model="claude-x"), "not_found_error")

    def strange():
        return client(base, "wrong").messages.create(**options(base))

    error = raises(anthropic.AuthenticationError, ["x-api-key"], strange)
    equal(error.body["error"]["type"], "authentication_error")
    raises(anthropic.NotFoundError, [], lambda: client(base).messages.batches.list())


def test_a_bearer_token_is_a_key_too(base):
    bearer = anthropic.Anthropic(base_url=base, api_key=None, auth_token=KEY, max_retries=0)
    assert bearer.messages.create(**options(base)).content


def test_beta_features_may_be_named(base):
    message = client(base).beta.messages.create(betas=["some-2026-01-01"], **options(base))
    equal(text(message), text(create(base)))


def test_leaving_a_stream_and_asking_again(base):
    long = options(base, max_tokens=900, extra_body={"ignore_eos": True})
    with client(base).messages.stream(**long) as events:
        next(iter(events))
    assert create(base).content


if __name__ == "__main__":
    run(globals())
