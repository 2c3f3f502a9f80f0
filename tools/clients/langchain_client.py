"""langchain-openai against the scripted model."""

import asyncio

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel

from checks import MODEL, PERSON, TEXT, equal, run


class User(BaseModel):
    """A person."""

    name: str
    age: int


def chat(base, **options):
    return ChatOpenAI(base_url=f"{base}/v1", api_key="none", model=MODEL, max_retries=0, **options)


def check_invoke(base):
    response = chat(base).invoke("Who is it?")
    equal(response.content, TEXT)
    assert response.usage_metadata["output_tokens"] > 0, response.usage_metadata


def check_stream(base):
    equal("".join(chunk.content for chunk in chat(base).stream("Who is it?")), TEXT)


def check_asynchronous_batch(base):
    responses = asyncio.run(chat(base).abatch(["Who is it?"] * 4))
    equal([response.content for response in responses], [TEXT] * 4)


def check_bound_tools(base):
    response = chat(base).bind_tools([User]).invoke("Who is it?")
    equal([(call["name"], call["args"]) for call in response.tool_calls], [("User", PERSON)])


def check_streamed_tool_call(base):
    chunks = list(chat(base).bind_tools([User], tool_choice="User").stream("Who is it?"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    equal([(call["name"], call["args"]) for call in whole.tool_calls], [("User", PERSON)])


def check_tool_message(base):
    call = {"id": "call_1", "name": "User", "args": PERSON}
    messages = [HumanMessage("Who is it?"), AIMessage("", tool_calls=[call]),
                ToolMessage("known", tool_call_id="call_1")]
    equal(chat(base).bind_tools([User]).invoke(messages).content, TEXT)


def check_structured_output_by_json_schema(base):
    equal(structured(base, "json_schema"), PERSON)


def check_structured_output_by_function_calling(base):
    equal(structured(base, "function_calling"), PERSON)


def check_structured_output_by_json_mode(base):
    equal(structured(base, "json_mode"), PERSON)


def structured(base, method):
    return chat(base).with_structured_output(User, method=method).invoke("Who is it?").model_dump()


def check_logprobs(base):
    response = chat(base).bind(logprobs=True, top_logprobs=2).invoke("Who is it?")
    assert response.response_metadata["logprobs"]["content"], response.response_metadata


def check_completion(base):
    model = OpenAI(base_url=f"{base}/v1", api_key="none", model=MODEL, max_tokens=4, temperature=0)
    equal(model.invoke("Hello"), '""""')


def check_embeddings(base):
    model = OpenAIEmbeddings(base_url=f"{base}/v1", api_key="none", model=MODEL,
                             check_embedding_ctx_length=False)
    equal(len(model.embed_documents(["a", "b"])), 2)


def check_responses(base):
    response = chat(base, use_responses_api=True).invoke("Who is it?")
    equal(response.text if isinstance(response.text, str) else response.text(), TEXT)


run(globals(), "langchain-openai")
