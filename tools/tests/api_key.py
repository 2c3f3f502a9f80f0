"""A server with keys serves those who have one.

usage: api_key.py http://HOST:PORT     (started with --api-key first --api-key second)
"""

import urllib.request

import openai

from checks import equal, raises, run


def models(base, key):
    return openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0).models.list().data


def test_each_key_is_good(base):
    for key in ("first", "second"):
        equal(len(models(base, key)), 1)


def test_other_keys_are_refused(base):
    for key in ("third", "firs", "firstsecond"):
        error = raises(openai.AuthenticationError, ["Authorization"], lambda: models(base, key))
        equal(error.code, "invalid_api_key")


def test_health_needs_no_key(base):
    with urllib.request.urlopen(f"{base}/ping") as response:
        equal(response.status, 200)


if __name__ == "__main__":
    run(globals())
