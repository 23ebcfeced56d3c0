"""Fixtures of the server suite: running servers and OpenAI's client. The environment says where things are (tests/meson.build)."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading

import openai
import pytest

SERVER, PROGRAM, MODEL, TEMPLATE = (os.environ["SLUICE_TEST_" + name] for name in ("SERVER", "PROGRAM", "MODEL", "TEMPLATE"))
sys.path.insert(0, os.path.dirname(__file__))


class Server:
    """`sluice serve` on a free port. Use with `with`; ends with SIGTERM, which must give exit code 0."""

    def __init__(self, model, *flags):
        self.process = subprocess.Popen([SERVER, model, "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
        self.lines, self.port = [], None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            if found:
                self.port = int(found.group(1))
                break
        threading.Thread(target=self.lines.extend, args=(self.process.stderr,), daemon=True).start()

    def __enter__(self):
        assert self.port, "".join(self.lines)
        return self

    def __exit__(self, *unused):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=30) == 0, "".join(self.lines)

    def client(self, key="none"):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key=key, max_retries=0, timeout=60)

    def ask(self, method, path, body=None, headers=None):
        """Status, text and headers of a raw request; bytes go as they are."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode(), headers or {})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, text, response.headers

    def waiting(self):
        return json.loads(self.ask("GET", "/health")[1])["requests"]


@pytest.fixture(scope="session")
def server():
    with Server(MODEL, "--chat-template", TEMPLATE, "--ctx", "1024") as running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    return server.client()


@pytest.fixture(scope="session")
def model_name(client):
    return client.models.list().data[0].id


def pytest_runtest_logreport(report):
    """A line for tools/run_tests.py."""
    name = report.nodeid.rsplit("/", 1)[-1]
    if report.when == "call" or report.failed:
        print(("ok - " if report.passed else "not ok - ") + name, file=sys.__stdout__, flush=True)
