"""A server with a certificate speaks HTTPS and nothing else.

usage: encrypted.py https://HOST:PORT     (with SSL_CERT_FILE naming its certificate)
"""

import os
import ssl
import urllib.error
import urllib.request

import openai

from checks import equal, raises, run

GREEDY = {"temperature": 0, "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]}


def client(base):
    return openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0)


def test_whole_and_streamed_responses_agree(base):
    create = client(base).chat.completions.create
    model = client(base).models.list().data[0].id
    whole = create(model=model, **GREEDY).choices[0].message.content
    chunks = create(model=model, stream=True, **GREEDY)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    equal(streamed, whole)


def test_a_client_that_does_not_trust_it_stays_away(base):
    trusting_nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ask = lambda: urllib.request.urlopen(f"{base}/ping", context=trusting_nobody)
    raises(urllib.error.URLError, ["certificate verify failed"], ask)


def test_plain_http_is_not_answered(base):
    plain = base.replace("https", "http")
    raises(Exception, [], lambda: urllib.request.urlopen(f"{plain}/ping"))


if __name__ == "__main__":
    assert os.environ["SSL_CERT_FILE"], "it names the server's certificate"
    run(globals())
