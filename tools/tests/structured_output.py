"""Structured outputs and tool calls, through the real OpenAI client.

usage: structured_output.py http://HOST:PORT
"""

import json
import re

import jsonschema
import openai

from checks import client, equal, model, raises, run, wait_until_idle

QUESTION = [{"role": "user", "content": "Describe a river as JSON."}]

RIVER = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 24},
        "length_km": {"type": "integer", "minimum": 1, "maximum": 9999},
        "kind": {"enum": ["stream", "river", "canal"]},
        "countries": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 12},
            "maxItems": 3,
        },
        "mouth": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/place"}]},
    },
    "required": ["name", "length_km", "kind", "countries", "mouth"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"sea": {"type": "string", "maxLength": 12}},
            "required": ["sea"],
            "additionalProperties": False,
        }
    },
}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "unit": {"enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
TIME = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "The time in a zone",
        "parameters": {
            "type": "object",
            "properties": {"zone": {"type": "string", "pattern": "^UTC[+-][0-9]{1,2}$"}},
            "required": ["zone"],
            "additionalProperties": False,
        },
    },
}
TOOLS = [WEATHER, TIME]
PARAMETERS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
ASK_WEATHER = [{"role": "user", "content": "What is the weather in Paris, in celsius?"}]


def chat(base, **options):
    options = {"model": model(base), "messages": QUESTION, "max_tokens": 300} | options
    return client(base).chat.completions.create(**options)


def text(base, **options):
    """The only response's text, which must have ended by itself."""
    choice = chat(base, **options).choices[0]
    equal(choice.finish_reason, "stop")
    return choice.message.content


def schema_format(schema, name="answer"):
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


def check_river(response):
    jsonschema.validate(json.loads(response), RIVER)


def test_schema_with_many_seeds_and_temperatures(base):
    for seed in range(12):
        options = {"seed": seed, "temperature": (0, 0.7, 1.0, 1.8)[seed % 4]}
        if seed % 3 == 1:
            options |= {"frequency_penalty": 0.8, "presence_penalty": -0.4}
        if seed % 3 == 2:
            options |= {"top_p": 0.9, "logprobs": True, "top_logprobs": 2}
        check_river(text(base, response_format=schema_format(RIVER), **options))


def test_schema_with_several_responses(base):
    response = chat(base, response_format=schema_format(RIVER), n=4, seed=5)
    equal([choice.finish_reason for choice in response.choices], ["stop"] * 4)
    for choice in response.choices:
        check_river(choice.message.content)


def test_schema_streamed_is_the_same(base):
    options = {"response_format": schema_format(RIVER), "seed": 3}
    chunks = [chunk.choices[0] for chunk in chat(base, stream=True, **options)]
    deltas = [choice.delta.content or "" for choice in chunks]
    equal("".join(deltas), text(base, **options))
    assert len([delta for delta in deltas if delta]) > 10, deltas
    equal(chunks[-1].finish_reason, "stop")


def test_pydantic_through_the_client(base):
    import pydantic  # comes with the client

    class City(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=20)
        population: int = pydantic.Field(ge=1, le=99999999)

    response = client(base).chat.completions.parse(
        model=model(base), messages=QUESTION, response_format=City, max_tokens=200, seed=1
    )
    assert isinstance(response.choices[0].message.parsed, City), response


def test_any_object(base):
    response = chat(base, response_format={"type": "json_object"}, temperature=0, max_tokens=400)
    choice = response.choices[0]
    assert choice.message.content.lstrip().startswith("{"), choice
    if choice.finish_reason == "stop":
        assert isinstance(json.loads(choice.message.content), dict)


def test_a_short_response_is_a_beginning(base):
    choice = chat(base, response_format=schema_format(RIVER), max_tokens=4).choices[0]
    equal(choice.finish_reason, "length")
    assert choice.message.content.startswith("{"), choice


def test_regex(base):
    pattern = r"(\d{1,3}\.){3}\d{1,3}"
    for extra in ({"structured_outputs": {"regex": pattern}}, {"guided_regex": pattern}):
        for seed in range(4):
            response = text(base, extra_body=extra, seed=seed)
            assert re.fullmatch(pattern, response), response


def test_choice(base):
    choices = ["yes", "no", "I do not know, é"]
    for extra in ({"structured_outputs": {"choice": choices}}, {"guided_choice": choices}):
        assert text(base, extra_body=extra) in choices


def test_grammar(base):
    grammar = 'start: sum\nsum: NUMBER (" + " NUMBER){1,3}\nNUMBER: /[1-9][0-9]{0,2}/'
    for extra in ({"structured_outputs": {"grammar": grammar}}, {"guided_grammar": grammar}):
        response = text(base, extra_body=extra, temperature=1.2)
        assert re.fullmatch(r"[1-9]\d{0,2}( \+ [1-9]\d{0,2}){1,3}", response), response


def test_completions_have_forms_too(base):
    response = client(base).completions.create(
        model=model(base), prompt="A river:", max_tokens=300, seed=2, extra_body={"guided_json": RIVER}
    )
    check_river(response.choices[0].text)


def test_errors_say_what_and_where(base):
    def refused(parts, **options):
        error = raises(openai.BadRequestError, parts, lambda: chat(base, **options))
        return error.param

    bad_type = schema_format({"type": "objekt"})
    path = "response_format.json_schema.schema"
    equal(refused(["Invalid type: objekt"], response_format=bad_type), path)
    equal(refused(["unclosed group"], extra_body={"guided_regex": "(a"}), "guided_regex")
    lark = {"structured_outputs": {"grammar": "start: foo"}}
    equal(refused(["1(8)", "unknown name"], extra_body=lark), "structured_outputs.grammar")
    both = {"guided_regex": "a", "guided_choice": ["a"]}
    equal(refused(["both say"], extra_body=both), "guided_choice")
    endless = {"guided_regex": "a", "ignore_eos": True}
    equal(refused(["ends where the grammar ends"], extra_body=endless), "ignore_eos")
    equal(refused(["limit is 4096"], extra_body={"guided_regex": "a?" * 3000}), "guided_regex")
    equal(refused(["no tools"], tool_choice="required"), "tool_choice")
    unknown = {"type": "function", "function": {"name": "nobody"}}
    equal(refused(["nobody"], tools=TOOLS, tool_choice=unknown), "tool_choice")
    broken = {"type": "function", "function": {"name": "f", "parameters": {"type": "objekt"}}}
    equal(refused(["objekt"], tools=[broken], tool_choice="required"), "tools")
    form = {"guided_regex": "a"}
    parts = ["something else"]
    equal(refused(parts, tools=TOOLS, tool_choice="required", extra_body=form), "tool_choice")


def check_calls(calls):
    assert calls, "no call"
    equal(len({call.id for call in calls}), len(calls))
    for call in calls:
        equal(call.type, "function")
        jsonschema.validate(json.loads(call.function.arguments), PARAMETERS[call.function.name])


def ask_tools(base, **options):
    options = {"messages": ASK_WEATHER, "tools": TOOLS, "max_tokens": 600} | options
    return chat(base, **options)


def test_required_calls(base):
    for seed in range(3):
        for parallel in (True, False):
            choice = ask_tools(
                base, tool_choice="required", parallel_tool_calls=parallel, seed=seed
            ).choices[0]
            equal(choice.message.content, None)
            equal(choice.finish_reason, "tool_calls")
            check_calls(choice.message.tool_calls)
            assert parallel or len(choice.message.tool_calls) == 1


def test_named_call(base):
    for name in PARAMETERS:
        named = {"type": "function", "function": {"name": name}}
        message = ask_tools(base, tool_choice=named).choices[0].message
        check_calls(message.tool_calls)
        equal([call.function.name for call in message.tool_calls], [name])


def joined(stream):
    """The calls of a stream put together, its text, and how it ended."""
    calls, content, finish = {}, "", None
    for chunk in stream:
        choice = chunk.choices[0]
        content += choice.delta.content or ""
        finish = choice.finish_reason or finish
        for delta in choice.delta.tool_calls or []:
            if delta.id is not None:
                equal(delta.type, "function")
                calls[delta.index] = [delta.function.name, "", 0]
            call = calls[delta.index]
            call[1] += delta.function.arguments
            call[2] += 1
    return [calls[index] for index in sorted(calls)], content, finish


def test_calls_streamed_are_the_same(base):
    options = {"tool_choice": "required", "parallel_tool_calls": False, "seed": 7}
    calls, content, finish = joined(ask_tools(base, stream=True, **options))
    equal((content, finish), ("", "tool_calls"))
    assert calls[0][2] > 5, f"not streamed: {calls}"
    whole = ask_tools(base, **options).choices[0].message.tool_calls
    want = [(call.function.name, call.function.arguments) for call in whole]
    equal([(name, arguments) for name, arguments, _ in calls], want)


def test_auto_leaves_the_model_free(base):
    for stream in (False, True):
        # A form that asks for a call, in place of a model that is clever enough to make one.
        call = '<tool_call>\n{"name": "get_time", "arguments": {"zone": "UTC+1"}}\n</tool_call>'
        extra = {"guided_choice": [f"One moment.\n{call}"]}
        response = ask_tools(base, tool_choice="auto", extra_body=extra, stream=stream)
        if stream:
            calls, content, finish = joined(response)
            got = [(name, arguments) for name, arguments, _ in calls]
        else:
            message, finish = response.choices[0].message, response.choices[0].finish_reason
            calls, content = message.tool_calls, message.content
            got = [(call.function.name, call.function.arguments) for call in calls]
        equal((got, content, finish), ([("get_time", '{"zone": "UTC+1"}')], "One moment.", "tool_calls"))


def test_text_beside_tools(base):
    extra = {"guided_choice": ["No function helps."]}
    choice = ask_tools(base, extra_body=extra).choices[0]
    equal((choice.message.content, choice.finish_reason), ("No function helps.", "stop"))
    equal(choice.message.tool_calls, None)
    choice = ask_tools(base, tool_choice="none", max_tokens=8).choices[0]
    equal(choice.message.tool_calls, None)


def test_a_conversation_with_a_result(base):
    first = ask_tools(base, tool_choice="required", parallel_tool_calls=False, seed=1).choices[0]
    call = first.message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"degrees": 21, "sky": "clear"}'}
    messages = [*ASK_WEATHER, first.message, result]
    response = chat(base, messages=messages, tools=TOOLS, temperature=0, max_tokens=60)
    assert response.choices[0].message.content or response.choices[0].message.tool_calls
    longer = response.usage.prompt_tokens - ask_tools(base, max_tokens=1).usage.prompt_tokens
    assert longer > 30, f"call and result are not in the prompt: {longer} tokens more"
    wait_until_idle(base)


if __name__ == "__main__":
    run(globals())
