"""The document at /openapi.json is valid OpenAPI, and its examples are answered.

usage: openapi_document.py http://HOST:PORT
"""

import json
import urllib.request

from openapi_spec_validator import validate

from checks import run


def document(base):
    with urllib.request.urlopen(f"{base}/openapi.json") as response:
        return json.load(response)


def test_it_is_valid(base):
    validate(document(base))


def test_the_examples_are_answered(base):
    about = document(base)
    answered = 0
    for path, operations in about["paths"].items():
        post = operations.get("post", {})
        body = post.get("requestBody")
        if body is None or "application/json" not in body["content"]:
            continue
        # Those of recommenders, tables and models of tensors are tried where these are served, by
        # ranking_service.py, table_service.py and ctr_client.py.
        if {"Recommenders", "Tables", "Inference"} & set(post["tags"]):
            continue
        name = body["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
        example = about["components"]["schemas"][name]["example"]
        request = urllib.request.Request(
            base + path.replace("{handle}", "document"), json.dumps(example).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            assert response.status in (200, 201), (path, response.status)
        answered += 1
    assert answered >= 6, f"only {answered} routes have an example"


if __name__ == "__main__":
    run(globals())
