"""Embeddings through OpenAI's package, which asks for base64, and as plain numbers.

usage: embeddings.py http://HOST:PORT
"""

import math

import openai

from checks import close, equal, raises, run

TEXTS = ["The cat sleeps on the sofa.", "A kitten naps on the couch.", "Stock markets fell."]


def client(base):
    return openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0)


def embed(base, inputs, **options):
    model = client(base).models.list().data[0].id
    return client(base).embeddings.create(model=model, input=inputs, **options)


def cosine(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def test_numbers_and_base64_agree(base):
    numbers = embed(base, TEXTS, encoding_format="float")
    # Left out, the package asks for base64 and decodes it.
    decoded = embed(base, TEXTS)
    equal([item.index for item in numbers.data], [0, 1, 2])
    for one, other in zip(numbers.data, decoded.data, strict=True):
        close(max(abs(a - b) for a, b in zip(one.embedding, other.embedding, strict=True)), 0, 1e-6)
        close(cosine(one.embedding, one.embedding), 1.0, 1e-5)
    equal(numbers.usage.total_tokens, numbers.usage.prompt_tokens)
    assert numbers.usage.prompt_tokens >= 12, numbers.usage


def test_what_means_the_same_is_nearer(base):
    cat, kitten, market = (item.embedding for item in embed(base, TEXTS).data)
    assert cosine(cat, kitten) > cosine(cat, market)


def test_a_batch_changes_nothing(base):
    alone = embed(base, TEXTS[0]).data[0].embedding
    equal(embed(base, TEXTS * 20).data[30].embedding, alone)


def test_dimensions_are_the_first_ones(base):
    whole = embed(base, TEXTS[0]).data[0].embedding
    short = embed(base, TEXTS[0], dimensions=32).data[0].embedding
    equal(len(short), 32)
    length = math.sqrt(math.fsum(x * x for x in whole[:32]))
    close(max(abs(a / length - b) for a, b in zip(whole, short)), 0, 1e-5)


def test_wrong_inputs_are_refused(base):
    raises(openai.BadRequestError, ["dimensions"], lambda: embed(base, "a", dimensions=10**6))
    raises(openai.BadRequestError, ["vocabulary"], lambda: embed(base, [10**6]))
    raises(openai.BadRequestError, ["empty"], lambda: embed(base, []))


if __name__ == "__main__":
    run(globals())
