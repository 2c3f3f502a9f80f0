"""Responses that take longer than the server allows: an error status, or an error in the stream.

usage: time_limit.py http://HOST:PORT     (started with --request-seconds 1)
"""

import openai

from checks import equal, raises, run, wait_until_idle


def ask(base, **options):
    client = openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=300)
    model = client.models.list().data[0].id
    # Eight responses of nine hundred tokens: far more than a second's work on any CPU.
    return client.completions.create(
        model=model, prompt="Once", max_tokens=900, n=8, extra_body={"ignore_eos": True}, **options
    )


def test_a_whole_response(base):
    error = raises(openai.InternalServerError, ["longer than 1 s"], lambda: ask(base))
    equal((error.status_code, error.code), (504, "request_timeout"))
    wait_until_idle(base)


def test_a_stream(base):
    deltas = []

    def read():
        for chunk in ask(base, stream=True):
            deltas.append(chunk)

    raises(openai.APIError, ["longer than 1 s"], read)
    assert deltas, "nothing came before the limit"
    wait_until_idle(base)


if __name__ == "__main__":
    run(globals())
