"""A stored response is visible to the key that made it.

usage: responses_keys.py http://HOST:PORT     (started with --api-key first --api-key second)
"""

import openai

from checks import equal, raises, run


def responses(base, key):
    return openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0).responses


def test_a_response_is_its_keys_own(base):
    first, second = responses(base, "first"), responses(base, "second")
    model = first._client.models.list().data[0].id
    made = first.create(model=model, input="Hello", max_output_tokens=8)
    for call in (second.retrieve, second.delete):
        raises(openai.NotFoundError, [made.id], lambda: call(made.id))
    goes_on = {"model": model, "input": "And?", "previous_response_id": made.id}
    error = raises(openai.BadRequestError, [made.id], lambda: second.create(**goes_on))
    equal(error.code, "previous_response_not_found")
    equal(first.create(max_output_tokens=8, **goes_on).previous_response_id, made.id)
    first.delete(made.id)
    raises(openai.NotFoundError, [made.id], lambda: first.retrieve(made.id))


if __name__ == "__main__":
    run(globals())
