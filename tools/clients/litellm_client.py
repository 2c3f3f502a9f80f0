"""litellm against the scripted model, as an OpenAI-compatible server and as a vLLM."""

import asyncio
import json

import litellm

from checks import MODEL, PERSON, QUESTION, TEXT, equal, run

TOOL = {"type": "function", "function": {"name": "User", "parameters": {
    "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"]}}}


def options(base, provider="openai"):
    return {"model": f"{provider}/{MODEL}", "api_base": f"{base}/v1", "api_key": "none",
            "num_retries": 0}


def check_chat(base):
    response = litellm.completion(messages=QUESTION, max_tokens=64, **options(base))
    equal(response.choices[0].message.content, TEXT)
    equal(response.choices[0].finish_reason, "stop")
    assert response.usage.prompt_tokens > 0 and response.usage.completion_tokens > 0, response.usage


def check_chat_of_a_hosted_vllm(base):
    response = litellm.completion(messages=QUESTION, **options(base, "hosted_vllm"))
    equal(response.choices[0].message.content, TEXT)


def check_streamed_chat(base):
    chunks = litellm.completion(messages=QUESTION, stream=True,
                                stream_options={"include_usage": True}, **options(base))
    chunks = list(chunks)
    equal("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), TEXT)
    assert any(getattr(chunk, "usage", None) for chunk in chunks), "no usage in the stream"


def check_chat_with_asyncio(base):
    response = asyncio.run(litellm.acompletion(messages=QUESTION, **options(base)))
    equal(response.choices[0].message.content, TEXT)


def check_tool_call(base):
    response = litellm.completion(messages=QUESTION, tools=[TOOL], **options(base))
    [call] = response.choices[0].message.tool_calls
    equal((call.function.name, json.loads(call.function.arguments)), ("User", PERSON))
    equal(response.choices[0].finish_reason, "tool_calls")


def check_tool_result(base):
    call = {"id": "call_1", "type": "function",
            "function": {"name": "User", "arguments": json.dumps(PERSON)}}
    messages = QUESTION + [{"role": "assistant", "content": None, "tool_calls": [call]},
                           {"role": "tool", "tool_call_id": "call_1", "content": "known"}]
    response = litellm.completion(messages=messages, tools=[TOOL], **options(base))
    equal(response.choices[0].message.content, TEXT)


def check_json_schema(base):
    schema = {"name": "User", "strict": True,
              "schema": TOOL["function"]["parameters"] | {"additionalProperties": False}}
    response = litellm.completion(
        messages=QUESTION, response_format={"type": "json_schema", "json_schema": schema},
        **options(base))
    equal(json.loads(response.choices[0].message.content), PERSON)


def check_text_completion(base):
    response = litellm.text_completion(prompt="Hello", max_tokens=4, temperature=0,
                                     **options(base, "text-completion-openai"))
    equal(response.choices[0].text, '""""')
    equal(response.choices[0].finish_reason, "length")


def check_embedding(base):
    response = litellm.embedding(input=["a", "b"], **options(base))
    equal(len(response.data), 2)


def check_responses(base):
    response = litellm.responses(input="Who is it?", **options(base))
    equal(response.output[0].content[0].text, TEXT)


def check_unknown_model(base):
    try:
        litellm.completion(messages=QUESTION, **options(base) | {"model": "openai/other"})
    except litellm.NotFoundError:
        return
    raise AssertionError("an unknown model was answered")


run(globals(), "litellm")
