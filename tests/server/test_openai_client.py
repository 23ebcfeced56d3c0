"""The server as OpenAI's own client sees it, over the demo model: every parameter, errors by type, cancelling, keep-alive."""
import json
import pathlib
import socket
import subprocess
import time

import openai
import pytest

from conftest import MODEL, PROGRAM, TEMPLATE, Server

MESSAGES = [{"role": "user", "content": "It was a dark night"}]
PROMPT = "It was a dark night\n"  # what the template makes of them


def generate(prompt, tokens, *flags):
    run = subprocess.run([PROGRAM, "generate", MODEL, "--prompt", prompt, "-n", str(tokens), "-q", *flags], capture_output=True, check=True)
    return run.stdout.decode()[:-1]


def chat(client, model, **parameters):
    return client.chat.completions.create(**{"model": model, "messages": MESSAGES, "max_tokens": 12, "temperature": 0, **parameters})


def complete(client, model, **parameters):
    return client.completions.create(**{"model": model, "prompt": PROMPT, "max_tokens": 12, "temperature": 0, **parameters})


def joined(stream):
    """Text, finish reasons and chunks of a streamed chat of one choice."""
    chunks = list(stream)
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    return "".join(c.delta.content or "" for c in choices), [c.finish_reason for c in choices if c.finish_reason], chunks


# ---- texts ----

@pytest.mark.parametrize("flags, parameters", [
    (["--temp", "0"], {"temperature": 0}),
    (["--temp", "1", "--seed", "7"], {"temperature": 1, "seed": 7}),
    (["--temp", "0.7", "--top-p", "0.8", "--seed", "99"], {"temperature": 0.7, "top_p": 0.8, "seed": 99}),
    (["--temp", "1.2", "--top-k", "5", "--seed", "3"], {"temperature": 1.2, "extra_body": {"top_k": 5}, "seed": 3}),
    (["--temp", "1", "--min-p", "0.1", "--seed", "3"], {"temperature": 1, "extra_body": {"min_p": 0.1}, "seed": 3}),
    (["--temp", "0", "--frequency-penalty", "1.5"], {"frequency_penalty": 1.5}),
    (["--temp", "0", "--presence-penalty", "-2"], {"presence_penalty": -2}),
    (["--temp", "0.9", "--repetition-penalty", "1.4", "--seed", "5"],
     {"temperature": 0.9, "extra_body": {"repetition_penalty": 1.4}, "seed": 5}),
])
def test_text_is_that_of_generate(client, model_name, flags, parameters):
    wanted = generate(PROMPT, 24, *flags)
    assert chat(client, model_name, max_tokens=24, **parameters).choices[0].message.content == wanted
    assert joined(chat(client, model_name, max_tokens=24, stream=True, **parameters))[0] == wanted
    assert complete(client, model_name, max_tokens=24, **parameters).choices[0].text == wanted
    assert "".join(c.choices[0].text for c in complete(client, model_name, max_tokens=24, stream=True, **parameters)) == wanted


def test_shapes_of_an_answer(client, model_name):
    answer = chat(client, model_name)
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-") and answer.model == model_name
    assert abs(answer.created - time.time()) < 60
    choice = answer.choices[0]
    assert (choice.index, choice.message.role, choice.finish_reason, choice.message.tool_calls) == (0, "assistant", "length", None)
    assert answer.usage.completion_tokens == 12 and answer.usage.total_tokens == answer.usage.prompt_tokens + 12
    answer = complete(client, model_name)
    assert (answer.object, answer.choices[0].index, answer.choices[0].finish_reason) == ("text_completion", 0, "length")
    assert answer.usage.completion_tokens == 12


def test_shapes_of_a_stream(client, model_name):
    _, reasons, chunks = joined(chat(client, model_name, stream=True))
    assert reasons == ["length"] and chunks[0].choices[0].delta.role == "assistant"
    assert len({chunk.id for chunk in chunks}) == 1 and {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


def test_include_usage(client, model_name):
    whole = chat(client, model_name).usage
    for stream in (chat(client, model_name, stream=True, stream_options={"include_usage": True}),
                   complete(client, model_name, stream=True, stream_options={"include_usage": True})):
        chunks = list(stream)
        assert chunks[-1].choices == [] and all(chunk.usage is None for chunk in chunks[:-1])
        assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (whole.prompt_tokens, whole.completion_tokens)


def test_cached_tokens_are_those_in_common(client, model_name):
    first = chat(client, model_name, messages=[{"role": "user", "content": "Nobody knew the name of the ship"}])
    answer = first.choices[0].message.content
    second = chat(client, model_name, messages=[{"role": "user", "content": "Nobody knew the name of the ship"},
                                                {"role": "assistant", "content": answer}, {"role": "user", "content": "And then?"}])
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens
    other = chat(client, model_name, messages=[{"role": "user", "content": "xyz"}])
    assert other.usage.prompt_tokens_details.cached_tokens < other.usage.prompt_tokens


# ---- parameters ----

def test_seed_repeats(client, model_name):
    texts = [chat(client, model_name, temperature=1, seed=seed).choices[0].message.content for seed in (42, 42, 43)]
    assert texts[0] == texts[1] != texts[2]
    assert len({chat(client, model_name, temperature=1.5).choices[0].message.content for _ in range(4)}) > 1  # without one, chance


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_token_limits_are_exact(client, model_name, name):
    for count in (1, 2, 3):
        answer = chat(client, model_name, **{"max_tokens": openai.NOT_GIVEN, name: count})
        assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (count, "length")


def test_a_chat_without_a_limit_ends_with_the_context(client, model_name):
    answer = chat(client, model_name, max_tokens=openai.NOT_GIVEN)
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.choices[0].finish_reason == "stop" or answer.usage.total_tokens >= 1024
    assert complete(client, model_name, max_tokens=openai.NOT_GIVEN).usage.completion_tokens == 16  # OpenAI's default


@pytest.mark.parametrize("as_list", [False, True])
def test_stop_strings(client, model_name, as_list):
    whole = chat(client, model_name, max_tokens=24).choices[0].message.content
    stop = whole[9:15]
    stops = ["never in it", stop] if as_list else stop
    wanted = whole[:whole.index(stop)]
    answer = chat(client, model_name, max_tokens=24, stop=stops).choices[0]
    assert (answer.message.content, answer.finish_reason) == (wanted, "stop")
    text, reasons, _ = joined(chat(client, model_name, max_tokens=24, stop=stops, stream=True))
    assert (text, reasons) == (wanted, ["stop"])
    answer = complete(client, model_name, max_tokens=24, stop=stops).choices[0]
    assert (answer.text, answer.finish_reason) == (wanted, "stop")


def test_n_choices(client, model_name):
    parameters = {"n": 3, "temperature": 1, "seed": 7}
    answer = chat(client, model_name, **parameters)
    texts = [choice.message.content for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2] and len(set(texts)) == 3
    assert answer.usage.completion_tokens == 36
    streamed = ["", "", ""]
    for chunk in chat(client, model_name, stream=True, **parameters):
        streamed[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert streamed == texts == [choice.text for choice in complete(client, model_name, **parameters).choices]


def ids_of(text):
    run = subprocess.run([PROGRAM, "tokenize", MODEL, "--text", text, "--plain"], capture_output=True, check=True, text=True)
    return run.stdout.split()


def test_penalties_end_loops(client, model_name):
    plain = chat(client, model_name, max_tokens=40)
    for parameters in ({"frequency_penalty": 2}, {"presence_penalty": 2}, {"extra_body": {"repetition_penalty": 2}}):
        other = chat(client, model_name, max_tokens=40, **parameters)
        assert other.usage.completion_tokens == plain.usage.completion_tokens
        repeated, wanted = (len(ids) - len(set(ids)) for ids in (ids_of(a.choices[0].message.content) for a in (other, plain)))
        assert repeated < wanted, parameters


def test_f12_biases_ban_and_force(client, model_name):
    for temperature in (0, 1):
        plain = chat(client, model_name, temperature=temperature, seed=3).choices[0].message.content
        banned = set(ids_of(plain))
        text = chat(client, model_name, temperature=temperature, seed=3, logit_bias={id: -100 for id in banned}).choices[0].message.content
        assert text and not banned & set(ids_of(text))
    (forced,) = ids_of(" the")
    for parameters in ({}, {"temperature": 1.5, "top_p": 0.5}, {"stream": True}):
        answer = chat(client, model_name, logit_bias={forced: 100, "7": -0.5}, **parameters)
        text = joined(answer)[0] if parameters.get("stream") else answer.choices[0].message.content
        assert text.strip() == " ".join(["the"] * 12)
    assert complete(client, model_name, logit_bias={forced: 100}).choices[0].text.strip() == " ".join(["the"] * 12)
    assert chat(client, model_name, logit_bias={}).choices[0].message.content == chat(client, model_name).choices[0].message.content


def test_a_form_forbids_after_biases(client, model_name):
    (forced,) = ids_of(" the")
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["yes", "no"]}}}
    banned = {id: -100 for id in ids_of('"yes" "no"')}
    for bias in ({forced: 100}, banned, {**banned, forced: 100}):
        for temperature in (0, 1.5):
            answer = chat(client, model_name, temperature=temperature, response_format=form, logit_bias=bias, frequency_penalty=2,
                          logprobs=True).choices[0]
            assert json.loads(answer.message.content) in ("yes", "no") and all(e.logprob <= 0 for e in answer.logprobs.content)


def test_logprobs_are_the_models_own(client, model_name):
    """From before biases: those of a forced answer are what the model gives to the same prompt and its continuation."""
    (forced,) = ids_of(" the")
    entries = chat(client, model_name, logit_bias={forced: 100}, logprobs=True, top_logprobs=3, max_tokens=4).choices[0].logprobs.content
    for n, entry in enumerate(entries):
        own = complete(client, model_name, prompt=PROMPT + " the" * n, max_tokens=1, logprobs=20).choices[0].logprobs
        alike = [(t.token, t.logprob) for t in entry.top_logprobs]
        assert alike == list(own.top_logprobs[0].items())[:3] and entry.token == " the"
        assert entry.logprob < -0.001 and abs(entry.logprob - own.top_logprobs[0].get(" the", entry.logprob)) < 1e-5


def test_logprobs_of_a_chat(client, model_name):
    entries = chat(client, model_name, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    assert len(entries) == 12
    for entry in entries:
        assert len(entry.top_logprobs) == 3 and entry.logprob <= 0 and bytes(entry.bytes).decode("utf-8", "replace") == entry.token
        assert entry.token == entry.top_logprobs[0].token and entry.logprob == entry.top_logprobs[0].logprob  # greedy
        assert entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob >= entry.top_logprobs[2].logprob
    streamed = [entry for chunk in chat(client, model_name, logprobs=True, top_logprobs=3, stream=True) if chunk.choices[0].logprobs
                for entry in chunk.choices[0].logprobs.content]
    assert streamed == entries
    assert len(chat(client, model_name, logprobs=True).choices[0].logprobs.content[0].top_logprobs) == 0


def test_logprobs_of_a_completion(client, model_name):
    logprobs = complete(client, model_name, logprobs=2).choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == len(logprobs.text_offset) == 12
    assert all(len(top) == 2 for top in logprobs.top_logprobs) and logprobs.text_offset[0] == 0


def test_echo_and_token_prompts(client, model_name):
    text = complete(client, model_name).choices[0].text
    assert complete(client, model_name, echo=True).choices[0].text == PROMPT + text
    run = subprocess.run([PROGRAM, "tokenize", MODEL, "--text", PROMPT], capture_output=True, check=True, text=True)
    ids = [int(word) for word in run.stdout.split()]
    assert complete(client, model_name, prompt=ids).choices[0].text == text


def test_tools_are_accepted(client, model_name):
    tools = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {
        "type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]}}}]
    plain = chat(client, model_name).choices[0].message.content
    for choice in ("auto", "none"):
        message = chat(client, model_name, tools=tools, tool_choice=choice, parallel_tool_calls=False).choices[0].message
        assert (message.content, message.tool_calls) == (plain, None)


def test_fields_that_change_nothing(client, model_name):
    plain = chat(client, model_name).choices[0].message.content
    assert chat(client, model_name, user="me", metadata={"a": "b"}, store=False, service_tier="auto", modalities=["text"],
                frequency_penalty=0, presence_penalty=0, response_format={"type": "text"}).choices[0].message.content == plain


# ---- refusals, by type ----

@pytest.mark.parametrize("field, value", [
    ("temperature", 2.5), ("temperature", -1), ("top_p", 1.5), ("n", 0), ("n", 1000), ("max_tokens", 0), ("max_tokens", -1),
    ("max_completion_tokens", 0), ("stop", [""]), ("stop", ["x"] * 17), ("top_logprobs", 3), ("messages", []), ("seed", 1.5),
    ("messages", [{"role": "banana", "content": "x"}]), ("tool_choice", "auto"), ("tools", [{"type": "function"}]),
    ("modalities", ["audio"]), ("frequency_penalty", 2.5), ("presence_penalty", -2.5), ("frequency_penalty", "1"),
    ("logit_bias", [1]), ("logit_bias", {"x": 1}), ("logit_bias", {"-1": 1}), ("logit_bias", {"1.0": 1}), ("logit_bias", {"5": 100.5}),
    ("logit_bias", {"5": "1"}), ("logit_bias", {"5": None}), ("logit_bias", {"999999": 5}), ("logit_bias", {str(1 << 64): 5}),
    ("stream_options", {"include_usage": True}),
])
def test_bad_values_are_bad_requests(client, model_name, field, value):
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, model_name, **{field: value})
    assert refused.value.status_code == 400 and refused.value.param == field and field in refused.value.message
    assert refused.value.type == "invalid_request_error"


def test_unknown_fields_are_refused_by_name(client, model_name):
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, model_name, extra_body={"temprature": 1})
    assert refused.value.param == "temprature"


@pytest.mark.parametrize("field, value", [("logprobs", 21), ("suffix", "x"), ("best_of", 3), ("prompt", ["a", "b"]), ("prompt", [-1])])
def test_bad_values_of_a_completion(client, model_name, field, value):
    with pytest.raises(openai.BadRequestError) as refused:
        complete(client, model_name, **{field: value})
    assert refused.value.param == field


def test_a_prompt_past_the_context(client, model_name):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refused:
            complete(client, model_name, prompt="word " * 3000, stream=stream)
        assert refused.value.code == "context_length_exceeded" and "1024" in refused.value.message


def test_another_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as refused:
        chat(client, "gpt-4")
    assert refused.value.code == "model_not_found" and refused.value.param == "model"


def test_models(client, model_name):
    assert model_name == pathlib.Path(MODEL).stem and client.models.retrieve(model_name).id == model_name
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4")


def test_api_key():
    with Server(MODEL, "--chat-template", TEMPLATE, "--ctx", "256", "--api-key", "secret") as server:
        name = server.client("secret").models.list().data[0].id
        assert chat(server.client("secret"), name).choices
        for key in ("secreT", "", "secret2"):
            with pytest.raises((openai.AuthenticationError, openai.APIConnectionError)) as refused:
                chat(server.client(key or " "), name)
            assert not isinstance(refused.value, openai.AuthenticationError) or refused.value.code == "invalid_api_key"
        assert server.ask("POST", "/v1/chat/completions", {})[0] == 401  # before the body is looked at
        assert server.ask("GET", "/health")[0] == 200


# ---- life of a request ----

@pytest.fixture(scope="module")
def slow():
    """One thread of the reference kernels: an answer takes a while."""
    with Server(MODEL, "--chat-template", TEMPLATE, "--isa", "ref", "--threads", "1") as server:
        yield server


def begin(server):
    client = server.client()
    stream = client.completions.create(model=client.models.list().data[0].id, prompt=PROMPT, max_tokens=1900, n=16, stream=True)
    next(iter(stream))
    return stream


def became(server, count, seconds=5):
    """Whether the server has that many requests before the time is up."""
    end = time.monotonic() + seconds
    while server.waiting() != count:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def ask_behind(server, body, requests=2):
    """A connection whose request waits behind those that are there, if any."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=9)
    data = json.dumps(body).encode()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    assert became(server, requests)
    return connection


def test_closing_a_stream_stops_its_work_within_a_second(slow):
    stream = begin(slow)
    assert slow.waiting() == 1
    stream.close()
    assert became(slow, 0, 1)
    assert complete(slow.client(), slow.client().models.list().data[0].id, max_tokens=2).usage.completion_tokens == 2


def test_a_request_that_waits_is_cancelled_too(slow):
    stream = begin(slow)
    waiting = ask_behind(slow, {"prompt": "x", "max_tokens": 2})
    waiting.close()
    stream.close()
    assert became(slow, 0)


def test_a07_a_long_text_is_cancelled_while_it_is_tokenized(slow):
    waiting = ask_behind(slow, {"prompt": "x " * (5 << 20), "max_tokens": 2}, 1)
    time.sleep(0.3)
    waiting.close()
    assert became(slow, 0, 1)


def test_a_silent_stream_is_kept_alive(slow):
    stream = begin(slow)
    waiting = ask_behind(slow, {"prompt": "x", "max_tokens": 2, "stream": True})
    seen = b""
    while b"\n: " not in seen and slow.waiting() == 2:
        seen += waiting.recv(4096)
    assert slow.waiting() == 2 and b"200 OK" in seen and b": still working\n\n" in seen and b"data:" not in seen
    stream.close()
    while b"[DONE]" not in seen:
        got = waiting.recv(4096)
        assert got
        seen += got
    waiting.close()


def test_health_answers_while_the_model_works(slow):
    stream = begin(slow)
    begun = time.monotonic()
    status, text, _ = slow.ask("GET", "/health")
    assert status == 200 and json.loads(text) == {"status": "ok", "requests": 1} and time.monotonic() - begun < 1
    stream.close()
