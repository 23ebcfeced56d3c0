#!/usr/bin/env python3
"""The HTTP interface of a running server: SERVER MODEL TEMPLATE. Prints "ok - name" or "not ok - name" a line; standard library only."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

SERVER, PROGRAM, MODEL, TEMPLATE = sys.argv[1:5]
failures = 0


class Running:
    """A server on a free port, ended at the end."""

    def __init__(self, *flags):
        self.process = subprocess.Popen([SERVER, MODEL, "--port", "0", "--chat-template", TEMPLATE, "--ctx", "1024", *flags],
                                        stderr=subprocess.PIPE, text=True)
        self.port = None
        for line in self.process.stderr:
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            if found:
                self.port = int(found.group(1))
                break

    def __enter__(self):
        assert self.port, "the server did not start"
        return self

    def __exit__(self, *unused):
        self.process.send_signal(signal.SIGTERM)
        self.code = self.process.wait(timeout=20)
        self.process.stderr.close()

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection.request(method, path, data, headers or {})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, text, response.headers

    def chat(self, **fields):
        body = {"messages": [{"role": "user", "content": "It was a dark night"}], "max_tokens": 12, "temperature": 0, **fields}
        return self.ask("POST", "/v1/chat/completions", body)


def check(name, condition, seen=""):
    global failures
    failures += not condition
    print(("ok - " if condition else "not ok - ") + name + ("" if condition else f": {seen!r}"[:600]), flush=True)


def events(text):
    return [line[6:] for line in text.decode().split("\n\n") if line.startswith("data: ")]


def counts(usage):
    return {name: usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}


def refused(server, name, status, path="/v1/chat/completions", body=None, method="POST", parameter=None, **headers):
    got, text, _ = server.ask(method, path, body, headers)
    try:
        error = json.loads(text)["error"]
        good = got == status and set(error) == {"message", "type", "param", "code"} and error["message"]
        good = good and (parameter is None or error["param"] == parameter)
    except (ValueError, KeyError, TypeError):
        good = False
    check(name, bool(good), (got, text))


def answers(server):
    status, text, _ = server.ask("GET", "/health")
    check("health", status == 200 and json.loads(text)["status"] == "ok", text)
    status, text, _ = server.ask("GET", "/v1/models")
    check("models lists one", status == 200 and len(json.loads(text)["data"]) == 1, text)
    status, text, headers = server.chat()
    answer = json.loads(text)
    choice = answer["choices"][0]
    check("chat answers", status == 200 and choice["message"]["role"] == "assistant" and choice["message"]["content"], text)
    check("length stop and usage", choice["finish_reason"] == "length" and answer["usage"]["completion_tokens"] == 12
          and answer["usage"]["total_tokens"] == 12 + answer["usage"]["prompt_tokens"], answer)
    status, text, headers = server.chat(stream=True, stream_options={"include_usage": True})
    chunks = [json.loads(e) for e in events(text)[:-1]]
    joined = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])
    check("stream is an event stream", headers["Content-Type"].startswith("text/event-stream"), headers["Content-Type"])
    check("C2 one DONE at the end", events(text)[-1] == "[DONE]" and text.count(b"[DONE]") == 1, text)
    check("stream equals answer", joined == choice["message"]["content"], (joined, choice))
    check("C1 usage in the last chunk", chunks[-1]["choices"] == [] and counts(chunks[-1]["usage"]) == counts(answer["usage"])
          and chunks[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == answer["usage"]["prompt_tokens"] - 1
          and all(c["usage"] is None for c in chunks[:-1]), chunks)
    reasons = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
    check("C3 one finish reason, role first", [r for r in reasons if r] == ["length"]
          and chunks[0]["choices"][0]["delta"]["role"] == "assistant", chunks)
    texts = [json.loads(server.chat(temperature=1, seed=s)[1])["choices"][0]["message"]["content"] for s in (42, 42, 43)]
    check("C26 seed repeats", texts[0] == texts[1] != texts[2], texts)
    many = json.loads(server.chat(n=3, temperature=1, seed=7)[1])["choices"]
    check("C10 n choices", [c["index"] for c in many] == [0, 1, 2] and len({c["message"]["content"] for c in many}) == 3, many)
    logs = json.loads(server.chat(logprobs=True, top_logprobs=3)[1])["choices"][0]["logprobs"]["content"]
    check("C8 logprobs", len(logs) == 12 and all(len(e["top_logprobs"]) == 3 and e["logprob"] <= 0 for e in logs)
          and logs[0]["top_logprobs"][0]["token"] == logs[0]["token"], logs)


def completions(server):
    body = {"prompt": "The old house", "max_tokens": 10, "temperature": 0}
    status, text, _ = server.ask("POST", "/v1/completions", body)
    whole = json.loads(text)["choices"][0]["text"]
    program = subprocess.run([PROGRAM, "generate", MODEL, "--prompt", "The old house", "-n", "10", "--temp", "0", "-q"],
                             capture_output=True, text=True)
    check("completion equals generate", status == 200 and program.stdout == whole + "\n", (whole, program.stdout))
    stop = whole[8:14]
    cut = json.loads(server.ask("POST", "/v1/completions", {**body, "stop": [stop]})[1])["choices"][0]
    check("C4 stop string over tokens", cut["text"] == whole[:whole.index(stop)] and cut["finish_reason"] == "stop", (whole, stop, cut))
    streamed = events(server.ask("POST", "/v1/completions", {**body, "stop": [stop], "stream": True})[1])[:-1]
    check("C4 stop string in a stream", "".join(json.loads(e)["choices"][0]["text"] for e in streamed) == cut["text"], streamed)
    counts = [json.loads(server.ask("POST", "/v1/completions", {**body, "max_tokens": n})[1])["usage"]["completion_tokens"]
              for n in (1, 2, 3)]
    check("C6 max_tokens exactly", counts == [1, 2, 3], counts)
    legacy = json.loads(server.ask("POST", "/v1/completions", {**body, "logprobs": 2})[1])["choices"][0]["logprobs"]
    check("C8 completions' logprobs", len(legacy["tokens"]) == len(legacy["token_logprobs"]) == len(legacy["top_logprobs"]) == 10, legacy)


def refusals(server):
    message = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    for name, body in {"brace": b"{", "empty": b"", "no object": b"[]", "bytes": b'{"messages":[{"role":"user","content":"\xc4\xe3"}]}',
                       "messages object": {"messages": {}}, "no messages": {"messages": []}}.items():
        refused(server, f"C13 bad body: {name}", 400, body=body)
    for field, value in {"temperature": "hot", "top_k": -5, "n": 1000000, "top_p": 2, "min_p": 2,
                         "max_tokens": 0, "stop": [""], "stream": "yes", "logprobs": 7, "n_keep": -2147483648,
                         "logit_bias": {"999999": 5}, "frequency_penalty": 2.01, "presence_penalty": "x", "repetition_penalty": 0,
                         "response_format": {"type": "wat"}}.items():
        refused(server, f"C19 {field} = {value!r}"[:60], 400, body={**message, field: value}, parameter=field)
    refused(server, "C19 seed past 64 bits", 400, body={**message, "seed": 1 << 64})
    for field in ("top_p", "frequency_penalty", "repetition_penalty"):
        for number in ("NaN", "Infinity", "-1e999"):
            refused(server, f"C19 {field} = {number}", 400, body=b'{"messages":[{"role":"user","content":"x"}],"%s":%s}' % (
                field.encode(), number.encode()))
    refused(server, "C6 negative max_tokens", 400, body={**message, "max_tokens": -1}, parameter="max_tokens")
    refused(server, "B6 invented role", 400, body={"messages": [{"role": "banana", "content": "x"}]})
    image = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}
    refused(server, "C27 image part", 400, body={"messages": [{"role": "user", "content": [image]}]})
    refused(server, "C24 wrong model", 404, body={**message, "model": "does-not-exist"})
    refused(server, "unknown path", 404, path="/v1/nothing")
    refused(server, "wrong method", 405, path="/v1/models", body=message)
    refused(server, "C22 foreign host", 403, path="/health", method="GET", Host="evil.example")
    refused(server, "C22 foreign page", 403, path="/health", method="GET", Origin="https://evil.example")
    refused(server, "C18 prompt past the context", 400, path="/v1/completions", body={"prompt": "word " * 3000, "max_tokens": 2})
    status, text, _ = server.chat()
    check("serves after all refusals", status == 200, text)


def cancel(server):
    connection = socket.create_connection(("127.0.0.1", server.port))
    body = json.dumps({"prompt": "Once", "max_tokens": 900, "stream": True}).encode()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    connection.recv(1)
    connection.close()
    begun = time.monotonic()
    while time.monotonic() - begun < 5 and json.loads(server.ask("GET", "/health")[1])["requests"] > 0:
        time.sleep(0.05)
    check("C16 a closed connection stops its work", json.loads(server.ask("GET", "/health")[1])["requests"] == 0)
    check("C16 the next request is right", server.chat()[0] == 200)


def main():
    with Running() as server:
        answers(server)
        completions(server)
        refusals(server)
        cancel(server)
    check("SIGTERM ends with 0", server.code == 0, server.code)
    with Running("--api-key", "secret", "--body-limit", "4K") as server:
        refused(server, "no key", 401, path="/v1/models", method="GET")
        refused(server, "wrong key", 401, path="/v1/models", method="GET", Authorization="Bearer secreT")
        status, text, _ = server.ask("GET", "/v1/models", headers={"Authorization": "Bearer secret"})
        check("right key", status == 200, text)
        status, text, _ = server.ask("POST", "/v1/completions", {"prompt": "x" * 5000}, {"Authorization": "Bearer secret"})
        check("body limit", status == 413, text)
    return 1 if failures else 0


os.environ.pop("SLUICE_API_KEY", None)
sys.exit(main())
