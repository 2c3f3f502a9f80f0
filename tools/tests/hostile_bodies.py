"""Bodies that nobody means well: every field of every route with wrong, extreme, deep, long and
doubled values.

The routes and their fields come from the server's own /openapi.json, so a new field is tried as
soon as it is documented. A body is text, not an object: JSON libraries cannot write most of these.
"""

import json
import random

DEEP = 5_000

# Texts of JSON values; the names are for messages.
VALUES = {
    "null": "null",
    "true": "true",
    "false": "false",
    "zero": "0",
    "one": "1",
    "minus one": "-1",
    "five as a float": "5.0",
    "a fraction": "0.3",
    "a large number": "1000000000",
    "2^31": str(2**31),
    "2^63": str(2**63),
    "-2^63 - 1": str(-(2**63) - 1),
    "2^64 - 1": str(2**64 - 1),
    "2^64": str(2**64),
    "30 digits": "9" * 30,
    "the largest double": "1.7976931348623157e308",
    "beyond doubles": "1e400",
    "beyond negative doubles": "-1e400",
    "nearly zero": "1e-400",
    "an empty text": '""',
    "a word": '"x"',
    "a number as a text": '"7"',
    "a zero byte": '"a\\u0000b"',
    "half a surrogate": '"\\ud800"',
    "letters of many bytes": '"' + "🙂é世" * 50 + '"',
    "a long text": '"' + "a " * 50_000 + '"',
    "an empty list": "[]",
    "a list of nothing": "[null]",
    "a list of a list": "[[]]",
    "a list of an object": "[{}]",
    "a list of numbers": "[1, 2, 3]",
    "a list of negative numbers": "[-1, -2]",
    "a list of texts": '["a", ""]',
    "a mixed list": '[1, "a", null, {}]',
    "many numbers": "[" + ",".join(["1"] * 20_000) + "]",
    "many texts": "[" + ",".join(['"a"'] * 20_000) + "]",
    "many lists": "[" + ",".join(["[]"] * 20_000) + "]",
    "an empty object": "{}",
    "an unknown object": '{"a": 1}',
    "a type alone": '{"type": "x"}',
    "many fields": "{" + ",".join(f'"f{n}": {n}' for n in range(5_000)) + "}",
    "a field twice": '{"a": 1, "a": 2}',
    "lists in lists": "[" * 100 + "]" * 100,
    "too many lists in lists": "[" * DEEP + "]" * DEEP,
    "objects in objects": '{"a":' * DEEP + "1" + "}" * DEEP,
}

# Bodies that are no request at all.
BROKEN = {
    "nothing": "",
    "a blank": " ",
    "no object": "[]",
    "a text": '"hello"',
    "half an object": '{"prompt": "a"',
    "a comment": '{"prompt": "a" /* b */}',
    "single quotes": "{'prompt': 'a'}",
    "not a number": '{"prompt": "a", "temperature": NaN}',
    "two objects": '{"prompt": "a"}{"prompt": "b"}',
    "a byte order mark": '\ufeff{"prompt": "a"}',
    "many fields": "{" + ",".join(f'"f{n}": {n}' for n in range(10_000)) + "}",
    "deep": "[" * 100_000,
}


# Outputs of a few tokens, so that time goes into requests.
SHORT = {"max_tokens": 2, "max_output_tokens": 2, "options": {"num_predict": 2}}
# Values of those that let an output be as long as it fits, which takes minutes and hurts nobody.
UNBOUNDED = ["null", "minus one", "an empty object"]


def routes(document):
    """Paths that take JSON, each with a good body and the names of its fields."""
    found = {}
    for path, item in document["paths"].items():
        body = item.get("post", {}).get("requestBody")
        if body is None or "application/json" not in body["content"]:
            continue
        schema = body["content"]["application/json"]["schema"]
        found[path] = (example(document, schema), properties(document, schema))
    return found


def resolved(document, schema):
    while "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        schema = document["components"]["schemas"][name]
    return schema


def example(document, schema):
    schema = resolved(document, schema)
    if "example" in schema:
        return schema["example"]
    for part in schema.get("allOf", []):
        if found := example(document, part):
            return found
    return None


def properties(document, schema):
    """The names of an object's fields, each with the names of the fields within."""
    schema = resolved(document, schema)
    fields = {}
    for part in schema.get("allOf", []) + schema.get("oneOf", []):
        fields.update(properties(document, part))
    for name, field in schema.get("properties", {}).items():
        fields[name] = sorted(properties(document, field))
    return fields


def bodies(good, fields, share=1.0, seed=1):
    """Names and texts of hostile bodies for a route; `share` of those with a single wrong field."""
    chance = random.Random(seed)
    good = {**{name: value for name, value in SHORT.items() if name in fields}, **good}
    for what, text in BROKEN.items():
        yield f"body: {what}", text
    for name, within in fields.items():
        for what, value in VALUES.items():
            is_unbounded = name in SHORT and what in UNBOUNDED
            if not is_unbounded and chance.random() < share:
                yield f"{name}: {what}", with_field(good, name, value)
        yield f"{name}: twice", with_field(good, name, '1, "%s": 1' % name)
        for inner in within:
            for what, value in VALUES.items():
                if chance.random() < share / 4:
                    rest = good[name] if isinstance(good.get(name), dict) else {}
                    nested = with_field(rest, inner, value)
                    yield f"{name}.{inner}: {what}", with_field(good, name, nested)
    for what, value in VALUES.items():
        yield f"an unknown field: {what}", with_field(good, "no_such_field", value)


def heavy():
    """Routes, names and texts of bodies that ask for much work: long ones, and slow grammars."""
    chat = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}
    text = "The quick brown fox jumps over the lazy dog. " * 85_000
    yield "/v1/completions", "a long prompt", json.dumps({"prompt": text})
    yield "/tokenize", "a long text", json.dumps({"prompt": text})
    ids = [1] * 1_300_000
    yield "/v1/completions", "many token ids", json.dumps({"prompt": ids})
    patterns = [{"type": "string", "pattern": f".*a.{{{n}}}"} for n in range(20, 40)]
    schema = {"allOf": patterns}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    yield "/v1/chat/completions", "twenty patterns", json.dumps({**chat, "response_format": form})
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    called = {**chat, "tools": tools, "tool_choice": "required"}
    yield "/v1/chat/completions", "twenty patterns of a tool", json.dumps(called)
    slow = " & ".join(f"/(z|.*a.{{{n}}})/" for n in range(40, 44))
    lark = f"start: A\nA: {slow}"
    yield "/v1/chat/completions", "a slow grammar", json.dumps({**chat, "guided_grammar": lark})
    nested = "((((a|b|ab){0,50}){0,50}){0,50}){0,50}"
    yield "/v1/chat/completions", "a large expression", json.dumps({**chat, "guided_regex": nested})


def with_field(good, name, value):
    rest = {field: given for field, given in good.items() if field != name}
    return json.dumps(rest)[:-1] + (", " if rest else "") + f'"{name}": {value}}}'
