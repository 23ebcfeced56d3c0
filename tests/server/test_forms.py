"""Answers of a given form: hundreds of seeds at a high temperature, checked by jsonschema; forced calls; refusals; the commands."""
import json
import re
import subprocess

import jsonschema
import openai
import pytest

import scripted_model
from conftest import MODEL, PROGRAM, TEMPLATE, Server

PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "age", "tags"], "properties": {
    "name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": -3, "maximum": 117},
    "tags": {"type": "array", "items": {"enum": ["a", "b c", None, 7]}, "minItems": 1, "maxItems": 3},
    "height": {"type": "number", "exclusiveMinimum": 0.25, "maximum": 2.5}}}
TREE = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["v"], "additionalProperties": False, "properties": {
    "v": {"type": "boolean"}, "left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}}}


def text(**limits):
    return {"type": "string", **limits}


SCHEMAS = {
    "person": PERSON,
    "tree": TREE,
    "times": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"anyOf": [text(format=f) for f in (
        "date", "time", "date-time", "duration")]}},
    "addresses": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"anyOf": [text(format=f) for f in (
        "uuid", "email", "ipv4", "ipv6", "hostname", "uri")]}},
    "pattern": {"type": "array", "minItems": 2, "maxItems": 4, "items": text(pattern="^[A-Z]{2}-\\d{3}( \"x\\\\)?$")},
    "union": {"type": ["object", "array", "null"], "maxItems": 2, "items": {"type": "integer", "multipleOf": 6, "maximum": 600,
                                                                             "minimum": -50},
              "additionalProperties": text(minLength=1, maxLength=3), "maxProperties": 3},
    "merged": {"allOf": [{"type": "object", "properties": {"a": {"type": "integer", "minimum": 2}}, "required": ["a"]},
                         {"properties": {"a": {"maximum": 44}, "b": {"const": {"x": [1, "\u00e4\n"]}}}, "required": ["b"]}]},
    "others": {"type": "object", "properties": {"ab": {"type": "integer"}}, "required": ["ab"],
               "additionalProperties": {"type": "array", "maxItems": 2, "items": {"type": "boolean"}}},
    "tuple": {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "integer", "maximum": 9}], "items": False, "minItems": 1},
    "oneof": {"oneOf": [{"type": "object", "required": ["k", "n"], "properties": {"k": {"const": "num"}, "n": {"type": "number"}}},
                        {"type": "object", "required": ["k"], "properties": {"k": {"const": "none"}}}]},
}


def by_schema(schema, name="form"):
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


@pytest.mark.parametrize("name", SCHEMAS)
def test_answers_of_many_seeds_are_valid(server, name):
    validator = jsonschema.Draft202012Validator(SCHEMAS[name], format_checker=jsonschema.FormatChecker())
    whole = 0
    for seed in range(4):
        status, body, _ = server.ask("POST", "/v1/completions", {
            "prompt": "The answer is", "max_tokens": 220, "temperature": 1.6, "seed": seed, "n": 12,
            "response_format": by_schema(SCHEMAS[name])})
        assert status == 200, body
        for choice in json.loads(body)["choices"]:
            if choice["finish_reason"] == "stop":  # "length": max_tokens cut it, and it cannot be valid
                validator.validate(json.loads(choice["text"]))
                whole += 1
    assert whole >= 24


def test_c11_json_object(client, model_name):
    whole = 0
    for seed in range(3):
        answer = client.chat.completions.create(model=model_name, messages=[{"role": "user", "content": "It was a dark night"}], n=8,
                                                temperature=1, seed=seed, max_tokens=120, response_format={"type": "json_object"})
        for choice in answer.choices:
            if choice.finish_reason == "stop":
                assert isinstance(json.loads(choice.message.content), dict)
                whole += 1
    assert whole > 0
    answer = client.chat.completions.create(model=model_name, messages=[{"role": "user", "content": "x"}], max_tokens=1,
                                            response_format={"type": "json_object"})
    assert answer.choices[0].finish_reason == "length"


def test_c11_places_of_the_schema(server):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    for place in ({"schema": schema}, {"json_schema": {"name": "t", "schema": schema}}):
        for kind in ("json_schema", "json_object") if "schema" in place else ("json_schema",):
            status, body, _ = server.ask("POST", "/v1/chat/completions", {
                "messages": [{"role": "user", "content": "x"}], "max_tokens": 200, "response_format": {"type": kind, **place}})
            choice = json.loads(body)["choices"][0]
            assert status == 200 and choice["finish_reason"] == "stop" and isinstance(json.loads(choice["message"]["content"])["ok"], bool)


def test_streams_and_logprobs(client, model_name):
    request = {"model": model_name, "messages": [{"role": "user", "content": "x"}], "temperature": 1, "seed": 3, "logprobs": True,
               "top_logprobs": 2, "response_format": by_schema(TREE), "max_tokens": 100}
    answer = client.chat.completions.create(**request).choices[0]
    streamed = "".join(c.choices[0].delta.content or "" for c in client.chat.completions.create(**request, stream=True))
    assert streamed == answer.message.content
    entries = answer.logprobs.content
    assert all(e.logprob <= 0 and e.top_logprobs[0].logprob >= e.logprob for e in entries)
    assert any(e.top_logprobs[0].token != e.token for e in entries)  # the model's own wish, which the form forbids


def test_c11_reasoning_comes_first(tmp_path):
    script = ["plan {", "</thi", "nk>", "\n\n", '{"ok": ', "true}", " and more"]
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ '<think>\\n' }}"
    model = scripted_model.write(str(tmp_path / "model"), {"x": script}, template=template, starts={"x": b"\n"})
    with Server(model, "--reply-format", "hermes") as server:
        client = server.client()
        choice = client.chat.completions.create(model=client.models.list().data[0].id, messages=[{"role": "user", "content": "q"}],
                                                temperature=0, response_format={"type": "json_object"}).choices[0]
        assert (choice.message.content, choice.message.reasoning_content, choice.finish_reason) == ('{"ok": true}', "plan {", "stop")


def tool(name, parameters):
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


WEATHER = {"type": "object", "properties": {"city": text(maxLength=8), "days": {"type": "integer", "minimum": 1, "maximum": 9},
                                            "sky": text(enum=["a<b", "grey"])}, "required": ["city", "days"]}
TOOLS = {"weather": WEATHER, "noop": {"type": "object", "properties": {}}}
FORMATS = ["hermes", "llama3", "gpt_oss", "functionary_v3_2", "functionary_v3_1", "firefunction", "minimax_m2", "deepseek_r1", "kimi",
           "glm", "qwen3_coder", "mistral_args", "granite", "nemotron_v2", "apertus", "hunyuan", "command_r7b", "seed_oss", "deepseek_dsml"]


@pytest.mark.parametrize("reply_format", FORMATS)
def test_forced_calls(reply_format):
    with Server(MODEL, "--chat-template", TEMPLATE, "--ctx", "1024", "--reply-format", reply_format) as server:
        client, names = server.client(), set()
        request = {"model": client.models.list().data[0].id, "messages": [{"role": "user", "content": "It was a dark night"}],
                   "max_tokens": 200, "parallel_tool_calls": False, "tools": [tool(n, p) for n, p in TOOLS.items()]}
        for seed in range(4):
            choice = client.chat.completions.create(**request, temperature=1, seed=seed, tool_choice="required").choices[0]
            assert choice.finish_reason in ("length", "tool_calls")
            if choice.finish_reason == "tool_calls":
                assert not choice.message.content
            for call in choice.message.tool_calls or []:
                jsonschema.validate(json.loads(call.function.arguments), TOOLS[call.function.name])
                names.add(call.function.name)
        for name in TOOLS:
            choice = client.chat.completions.create(**request, temperature=1, seed=5, tool_choice={
                "type": "function", "function": {"name": name}}).choices[0]
            assert choice.finish_reason == "length" or [c.function.name for c in choice.message.tool_calls] == [name]
        assert names


def test_formats_without_calls_refuse():
    for reply_format in ("plain", "gemma4", "lfm2"):
        with Server(MODEL, "--chat-template", TEMPLATE, "--ctx", "1024", "--reply-format", reply_format) as server:
            with pytest.raises(openai.BadRequestError, match="forced"):
                server.client().chat.completions.create(model="novels-moe-Q4_K_M", messages=[{"role": "user", "content": "x"}],
                                                        tools=[tool("a", {})], tool_choice="required")


def test_c12_sixty_tools():
    with Server(MODEL, "--chat-template", TEMPLATE, "--ctx", "1024", "--reply-format", "hermes") as server:
        client = server.client()
        tools = [tool(f"tool_{i}", PERSON) for i in range(60)]
        named = {"type": "function", "function": {"name": "tool_59"}}
        choice = client.chat.completions.create(model=client.models.list().data[0].id, messages=[{"role": "user", "content": "x"}],
                                                tools=tools, max_tokens=400, seed=1, tool_choice=named).choices[0]
        assert choice.finish_reason == "length" or choice.message.tool_calls[0].function.name == "tool_59"


@pytest.mark.parametrize("parameter, fields", [
    ("response_format", {"response_format": by_schema({"type": "wat"})}),
    ("response_format", {"response_format": by_schema({"$ref": "#"})}),
    ("response_format", {"response_format": by_schema({"$ref": "#/x"})}),
    ("response_format", {"response_format": by_schema({"properties": {"a": {"not": {}}}})}),
    ("response_format", {"response_format": by_schema({"type": "string", "pattern": "(?=x)"})}),
    ("response_format", {"response_format": by_schema({"type": "integer", "minimum": 2, "maximum": 1})}),
    ("response_format", {"response_format": {"type": "json_schema"}}),
    ("tools", {"tools": [tool("a", {"type": "wat"})], "tool_choice": "required"}),
    ("tool_choice", {"tools": [tool("a", {})], "tool_choice": {"type": "function", "function": {"name": "b"}}}),
    ("tool_choice", {"tool_choice": "required"}),
])
def test_c12_refusals_name_the_parameter(client, model_name, parameter, fields):
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(model=model_name, messages=[{"role": "user", "content": "x"}], **fields)
    assert refusal.value.param == parameter


# ---- the commands ----

def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)


def test_generate(tmp_path):
    for seed in range(3):
        out = run("generate", MODEL, "--prompt", "Once", "--regex", "[A-Z][a-z]{3,9} (is|was) \\d+\\.", "--seed", str(seed), "-q").stdout
        assert re.fullmatch(r"[A-Z][a-z]{3,9} (is|was) \d+\.\n", out)
    assert run("generate", MODEL, "--prompt", "Once", "--choice", "one", "--choice", "two words", "-q").stdout in ("one\n", "two words\n")
    (tmp_path / "list.gbnf").write_text('root ::= item{2}\nitem ::= "- " [a-z]{1,9} "\\n"\n')
    out = run("generate", MODEL, "--prompt", "Once", "--grammar", str(tmp_path / "list.gbnf"), "-q").stdout
    assert re.fullmatch(r"(- [a-z]+\n){2}\n", out)
    (tmp_path / "tree.json").write_text(json.dumps(TREE))
    jsonschema.validate(json.loads(run("generate", MODEL, "--prompt", "Once", "--schema", str(tmp_path / "tree.json"), "-q").stdout), TREE)
    (tmp_path / "bad.json").write_text('{"type": "object", "properties": {"a": {"type": "wat"}}}')
    refusal = run("generate", MODEL, "--prompt", "Once", "--schema", str(tmp_path / "bad.json"))
    assert refusal.returncode == 2 and "schema.properties.a: type must be" in refusal.stderr


def test_mask():
    ids = run("tokenize", MODEL, "--text", "yes", "--no-special").stdout.split()
    first, end = (run("mask", MODEL, "--choice", "yes", "--prefix-ids", " ".join(p)).stdout.split() for p in ([], ids))
    assert ids[0] in first and end and not set(end) & set(first)
    assert run("mask", MODEL, "--choice", "yes", "--prefix-ids", end[0]).returncode == 2
    assert run("mask", MODEL, "--choice", "yes", "--json").returncode == 2
    assert run("mask", MODEL).returncode == 2
