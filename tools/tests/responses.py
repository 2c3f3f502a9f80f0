"""The Responses API through the real OpenAI client.

usage: responses.py http://HOST:PORT
"""

import json
from typing import Literal

import openai
import pydantic

from checks import client, equal, model, raises, run, wait_until_idle

QUESTION = "What is the capital of France?"


def create(base, input=QUESTION, **options):
    options = {"model": model(base), "max_output_tokens": 24, "temperature": 0} | options
    return client(base).responses.create(input=input, **options)


class River(pydantic.BaseModel):
    kind: Literal["stream", "river", "canal"]
    length_km: int = pydantic.Field(ge=1, le=9999)
    is_navigable: bool


WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def test_create(base):
    response = create(base)
    equal((response.object, response.status, response.error), ("response", "completed", None))
    equal(response.model, model(base))
    assert response.id.startswith("resp_") and response.created_at > 0
    assert "Paris" in response.output_text, response.output_text
    equal([item.type for item in response.output], ["message"])
    message = response.output[0]
    equal((message.role, message.status), ("assistant", "completed"))
    equal(message.content[0].annotations, [])
    usage = response.usage
    assert usage.input_tokens > 0 and usage.output_tokens > 0
    equal(usage.total_tokens, usage.input_tokens + usage.output_tokens)
    equal(usage.output_tokens_details.reasoning_tokens, 0)
    assert usage.input_tokens_details.cached_tokens <= usage.input_tokens
    equal((response.temperature, response.max_output_tokens), (0, 24))
    equal((response.tools, response.tool_choice, response.parallel_tool_calls), ([], "auto", True))
    equal((response.text.format.type, response.truncation), ("text", "disabled"))


def test_the_model_sees_what_a_chat_shows_it(base):
    chat = client(base).chat.completions.create(
        model=model(base),
        messages=[
            {"role": "system", "content": "Answer in one word."},
            {"role": "user", "content": QUESTION},
        ],
        max_tokens=24,
        temperature=0,
    )
    want = (chat.choices[0].message.content, chat.usage.prompt_tokens)
    for input, options in [
        (QUESTION, {"instructions": "Answer in one word."}),
        (
            [
                {"role": "developer", "content": "Answer in one word."},
                {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
            ],
            {},
        ),
    ]:
        response = create(base, input, **options)
        equal((response.output_text, response.usage.input_tokens), want)


def test_a_cut_response_is_incomplete(base):
    response = create(base, max_output_tokens=2)
    equal((response.status, response.output[0].status), ("incomplete", "incomplete"))
    equal(response.incomplete_details.reason, "max_output_tokens")
    equal(response.usage.output_tokens, 2)


def test_turns_by_previous_response_id(base):
    first = create(base, instructions="Be brief.")
    second = create(base, "Are you sure?", previous_response_id=first.id)
    equal(second.previous_response_id, first.id)
    again = create(
        base,
        [{"role": "user", "content": QUESTION}, *first.output, {"role": "user", "content": "Are you sure?"}],
    )
    equal(again.output_text, second.output_text)
    equal(again.usage.input_tokens, second.usage.input_tokens)
    items = client(base).responses.input_items.list(second.id, order="asc", limit=2)
    texts = [item.content[0].text for item in items]
    equal(texts, [QUESTION, first.output_text, "Are you sure?"])


def test_stream(base):
    whole = create(base)
    events = list(create(base, stream=True))
    equal([event.sequence_number for event in events], list(range(len(events))))
    names = [event.type for event in events]
    equal(names[:4], [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ])
    equal(names[-4:], [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ])
    equal(set(names[4:-4]), {"response.output_text.delta"})
    equal("".join(event.delta for event in events[4:-4]), whole.output_text)
    equal(events[-1].response.output_text, whole.output_text)
    usage = events[-1].response.usage
    equal(usage.input_tokens, whole.usage.input_tokens)
    equal(usage.output_tokens, whole.usage.output_tokens)


def test_stream_to_the_final_response(base):
    options = {"model": model(base), "input": QUESTION, "max_output_tokens": 24, "temperature": 0}
    with client(base).responses.stream(**options) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    equal((final.output_text, final.status), (text, "completed"))
    equal(client(base).responses.retrieve(final.id).output_text, text)


def test_parse(base):
    options = {"model": model(base), "input": "Describe the Rhine.", "max_output_tokens": 100}
    for seed in range(3):
        response = client(base).responses.parse(
            text_format=River, extra_body={"seed": seed}, **options
        )
        river = response.output_parsed
        assert isinstance(river, River) and 1 <= river.length_km <= 9999, response.output_text
        equal(response.text.format.type, "json_schema")
    seeded = {"extra_body": {"seed": 0}, **options}
    with client(base).responses.stream(text_format=River, **seeded) as stream:
        assert isinstance(stream.get_final_response().output_parsed, River)


def test_a_tool_is_called_and_answered(base):
    options = {"tools": [WEATHER], "parallel_tool_calls": False, "max_output_tokens": 64}
    question = "How is the weather in Rome?"
    first = create(base, question, tool_choice="required", **options)
    [call] = first.output
    equal((call.type, call.name, call.status), ("function_call", "weather", "completed"))
    assert json.loads(call.arguments)["city"] in ("Paris", "Rome")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."}
    second = create(base, [result], previous_response_id=first.id, tools=[WEATHER])
    again = create(base, [{"role": "user", "content": question}, call, result], tools=[WEATHER])
    equal(second.usage.input_tokens, again.usage.input_tokens)
    equal(second.output_text, again.output_text)

    named = {"type": "function", "name": "weather"}
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [named]}
    for choice in (named, allowed):
        response = create(base, question, tool_choice=choice, **options)
        equal(response.output[0].name, "weather")
    with client(base).responses.stream(
        model=model(base), input=question, tool_choice="required", **options
    ) as stream:
        final = stream.get_final_response()
    assert json.loads(final.output[0].arguments)["city"] in ("Paris", "Rome")


def test_logprobs(base):
    response = create(base, include=["message.output_text.logprobs"], top_logprobs=2)
    logprobs = response.output[0].content[0].logprobs
    equal("".join(entry.token for entry in logprobs), response.output_text)
    assert all(len(entry.top_logprobs) == 2 for entry in logprobs)


def test_retrieve_and_delete(base):
    responses = client(base).responses
    made = create(base, metadata={"topic": "France"})
    equal(responses.retrieve(made.id), made)
    equal(made.metadata, {"topic": "France"})
    responses.delete(made.id)
    for call in (responses.retrieve, responses.delete):
        raises(openai.NotFoundError, [made.id, "1,000 responses"], lambda: call(made.id))
    unstored = create(base, store=False)
    raises(openai.NotFoundError, [], lambda: responses.retrieve(unstored.id))


def test_errors_have_their_types(base):
    error = raises(
        openai.BadRequestError, ["resp_none"], lambda: create(base, previous_response_id="resp_none")
    )
    equal((error.param, error.code), ("previous_response_id", "previous_response_not_found"))
    image = [{"type": "input_image", "image_url": "http://127.0.0.1/a.png"}]
    error = raises(
        openai.BadRequestError,
        ["text only"],
        lambda: create(base, [{"role": "user", "content": image}]),
    )
    equal(error.param, "input[0].content[0].type")
    raises(openai.NotFoundError, ["nobody"], lambda: create(base, model="nobody"))
    for options, part in [
        ({"tools": [{"type": "web_search"}]}, "web_search"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"truncation": "auto"}, "truncation"),
    ]:
        raises(openai.BadRequestError, [part], lambda: create(base, **options))


def test_nothing_is_left_behind(base):
    wait_until_idle(base)


if __name__ == "__main__":
    run(globals())
