"""A server that runs one request and lets one more wait refuses the third, and recovers.

usage: queue_limit.py http://HOST:PORT     (started with --max-batch-size 1 --max-waiting 1)
"""

import openai

from checks import equal, raises, run, wait_until_idle


def test_the_third_request_is_refused(base):
    client = openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=300)
    model = client.models.list().data[0].id

    def ask(new_tokens):
        return client.completions.create(
            model=model,
            prompt="Once",
            max_tokens=new_tokens,
            stream=True,
            extra_body={"ignore_eos": True},
        )

    running = ask(900)
    next(running)
    waiting = ask(900)
    error = raises(openai.RateLimitError, ["waiting already, the limit is 1"], lambda: ask(1))
    equal(error.code, "queue_full")
    equal(error.response.headers["retry-after"], "1")
    running.close()
    next(waiting)
    waiting.close()
    wait_until_idle(base)
    assert list(ask(3)), "no response after the queue was empty again"


if __name__ == "__main__":
    run(globals())
