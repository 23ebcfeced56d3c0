#!/usr/bin/env python3
"""sluice chat as its user meets it: PROGRAM MODEL TEMPLATE. By pipes, then on a terminal. Prints "ok - name" or "not ok - name"."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

PROGRAM, MODEL, TEMPLATE = sys.argv[1:4]
FLAGS = ["--chat-template", TEMPLATE, "--temp", "0", "--ctx", "1500"]
failures = 0


def check(name, condition, seen=""):
    global failures
    failures += not condition
    print(("ok - " if condition else "not ok - ") + name + ("" if condition else f": {seen!r}"[:900]), flush=True)


def chat(lines, *flags, tokens=12):
    return subprocess.run([PROGRAM, "chat", MODEL, *FLAGS, "-n", str(tokens), *flags], input=lines.encode(), capture_output=True,
                          timeout=120)


def generate(prompt, tokens=12):
    run = subprocess.run([PROGRAM, "generate", MODEL, "--prompt-file", "-", "--plain", "--temp", "0", "-n", str(tokens), "-q"],
                         input=prompt.encode(), capture_output=True, timeout=120)
    return run.stdout.decode()


def by_pipe(folder):
    one = generate("Once upon a time\n")
    two = generate("Once upon a time\n" + one + "And then?\n")
    run = chat("Once upon a time\nAnd then?\n")
    check("answers alone are on standard output, as generate gives them", run.stdout.decode() == one + two and run.returncode == 0, run)
    check("the second turn reads what is new", re.search(rb" and [1-9]\d* kept from before", run.stderr), run.stderr)
    check("the first line cost is told", run.stderr.count(b"ended by --max-tokens") == 2, run.stderr)
    check("--quiet says nothing", chat("Once\n", "-q").stderr == b"")
    check("an empty input ends well", chat("").returncode == 0)
    saved = os.path.join(folder, "talk.json")
    run = chat(f"/system Be brief.\nOnce upon a time\n/save {saved}\n/clear\n/load {saved}\nAnd then?\n/save {saved}\n")
    messages = json.load(open(saved, encoding="utf-8"))
    check("save and load keep the conversation", [m["role"] for m in messages] == ["system", "user", "assistant", "user", "assistant"]
          and messages[0]["content"] == "Be brief." and run.returncode == 0, (messages, run.stderr))
    check("what was loaded is the prompt", messages[4]["content"] + "\n" == generate(
        "Be brief.\nOnce upon a time\n" + messages[2]["content"] + "\nAnd then?\n"), messages)
    run = chat(f"a\\\nb\n/save {saved}\n\"\"\"\n c\nd\\\n\"\"\"\n/save {saved}2\n/clear\n /slash\n/save {saved}3\n")
    texts = [json.load(open(saved + n, encoding="utf-8"))[-2]["content"] for n in ("", "2", "3")]
    check("backslash and quotes join lines, a space hides a slash", texts == ["a\nb", " c\nd\\", " /slash"], (texts, run.stderr))
    warm = ["--temp", "1", "--seed", "5"]
    run = chat("Once upon a time\n/regen\n/regen\n", *warm)
    answers = run.stdout.decode().split("\n")
    again = chat("Once upon a time\n/regen\n/regen\n", *warm)
    check("regen gives other answers, repeatably", len(set(answers[:3])) == 3 and again.stdout == run.stdout, (run, again))
    for line, words in {"/nothing": b"no command '/nothing' (/help", "/regen": b"nothing to answer again",
                        "/load /nonexistent": b"/nonexistent", "/save": b"needs a FILE"}.items():
        run = chat(line + "\n")
        check(f"{line}: an error, and the program goes on to its end", run.returncode == 1 and words in run.stderr, run)
    check("help lists the commands", all(w in chat("/help\n").stderr for w in (b"/regen", b"/system", b"/exit")))
    check("exit ends at once", chat("/exit\nOnce\n").stdout == b"")
    run = chat("word " * 3000 + "\nOnce upon a time\n")
    check("a message past the context is refused and forgotten", run.returncode == 3 and run.stdout.decode() == one
          and b"--ctx" in run.stderr and b"/clear" in run.stderr, run)
    run = subprocess.run([PROGRAM, "chat", MODEL], input=b"x\n", capture_output=True, timeout=60)
    check("B9 no template: refused with the remedy before loading", run.returncode == 1 and b"--chat-template" in run.stderr
          and b"plan for" not in run.stderr, run)
    run = chat("\xff\xfe\0a\n".encode("latin-1").decode("latin-1"))
    check("odd bytes are taken", run.returncode == 0, run)


def documents():
    page = subprocess.run([PROGRAM, "--man-page"], capture_output=True, timeout=60).stdout
    words = (b"sluice chat", b"sluice serve", b"\\-\\-api\\-key")
    check("the man page has the commands that are programs of their own", all(word in page for word in words), page)
    overview = subprocess.run([PROGRAM, "--help"], capture_output=True, timeout=60).stdout
    check("and so has the overview", b"  chat " in overview and b"  serve " in overview)
    run = subprocess.run([PROGRAM, "chatt"], capture_output=True, timeout=60)
    check("a typing error is answered with the nearest command", run.returncode == 2 and b"did you mean 'chat'" in run.stderr, run)


def thinking(folder):
    template = os.path.join(folder, "think.jinja")
    with open(template, "w", encoding="utf-8") as file:
        file.write("{% for message in messages %}{{ message.content }}\n{% endfor %}<think>\n{# </think> #}")
    run = chat("Once upon a time\n", "--chat-template", template, "--reply-format", "hermes")
    check("reasoning is not in a pipe", run.stdout == b"" and run.returncode == 0, run)
    return template


class Terminal:
    """The program on a pseudo terminal; what it wrote is in self.seen."""

    def __init__(self, folder, *flags):
        environment = {**os.environ, "XDG_STATE_HOME": folder, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(PROGRAM, [PROGRAM, "chat", MODEL, *FLAGS, *flags], environment)
        self.seen = b""

    def wait_for(self, words, seconds=30):
        """Reads until `words` came behind what was seen by the last call; False when they do not."""
        end = time.monotonic() + seconds
        while words not in self.seen:
            if time.monotonic() > end or not select.select([self.fd], [], [], 1)[0]:
                if time.monotonic() > end:
                    return False
                continue
            try:
                got = os.read(self.fd, 65536)
            except OSError:
                return False
            if not got:
                return False
            self.seen += got
        self.seen = self.seen[self.seen.index(words) + len(words):]
        return True

    def prompted(self, seconds=30):
        """The prompt is there, and the terminal is the line editor's: keys that come before are signals and echo."""
        end = time.monotonic() + seconds
        shown = self.wait_for(b"> ", seconds)
        while shown and termios.tcgetattr(self.fd)[3] & termios.ICANON:
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return shown

    def type(self, text):
        os.write(self.fd, text.encode())

    def resize(self, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def bytes_read(self):
        """By all threads so far, from disk or not; io_uring's are not counted."""
        with open(f"/proc/{self.pid}/io", encoding="ascii") as file:
            return int(re.search(r"rchar: (\d+)", file.read())[1])

    def reads(self, most, seconds):
        """Waits until so many bytes were read; returns how many were."""
        end = time.monotonic() + seconds
        while self.bytes_read() < most and time.monotonic() < end:
            time.sleep(0.05)
        return self.bytes_read()

    def end(self):
        """The exit code; kills what does not end."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.modes = termios.tcgetattr(self.fd)[3]
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None


def on_a_terminal(folder, template):
    terminal = Terminal(folder, "-n", "0", "--ctx", "1400")
    check("a terminal is greeted and prompted", terminal.wait_for(b"/help lists") and terminal.prompted(), terminal.seen)
    terminal.type("this is given up\x03")
    check("Ctrl-C gives up the line", terminal.wait_for(b"\n") and terminal.prompted(), terminal.seen)
    terminal.type("Once upon a time\r")
    started = terminal.wait_for(b"time\r\n") and terminal.wait_for(b" ")
    terminal.type("\x03")
    begun = time.monotonic()
    stopped = terminal.wait_for(b"ended by Ctrl-C", 10)
    check("H5 Ctrl-C stops the answer within a second", started and stopped and time.monotonic() - begun < 1, terminal.seen)
    check("and keeps the session", terminal.prompted(), terminal.seen)
    saved = os.path.join(folder, "stopped.json")
    terminal.type(f"/save {saved}\r")
    check("the cut answer is kept", terminal.wait_for(b"2 messages") and terminal.prompted()
          and [m["role"] for m in json.load(open(saved, encoding="utf-8"))] == ["user", "assistant"], terminal.seen)
    terminal.type("\x04")
    check("Ctrl-D ends with 0", terminal.end() == 0, terminal.seen)
    history = os.path.join(folder, "sluice", "chat_history")
    check("history is the user's alone", os.stat(history).st_mode & 0o777 == 0o600)
    terminal = Terminal(folder, "-n", "6")
    ready = terminal.prompted()
    terminal.type("\x1b[A\x1b[A")
    check("history is there in the next run", ready and terminal.wait_for(b"Once upon a time"), terminal.seen)
    terminal.type("\r")
    check("and can be sent", terminal.wait_for(b"ended by --max-tokens") and terminal.prompted(), terminal.seen)
    edited = termios.tcgetattr(terminal.fd)[3] & (termios.ECHO | termios.ICANON)
    os.kill(terminal.pid, signal.SIGTERM)
    code = terminal.end()
    check("SIGTERM at the prompt ends it with the terminal put right", code == 130 and edited == 0
          and all(terminal.modes & mode for mode in (termios.ECHO, termios.ICANON, termios.ISIG)), (code, edited, terminal.modes))
    terminal = Terminal(folder, "-n", "6", "--chat-template", template, "--reply-format", "hermes")
    ready = terminal.prompted()
    terminal.type("Once upon a time\r")
    check("reasoning is dimmed on a terminal", ready and terminal.wait_for(b"\x1b[2m") and terminal.wait_for(b"\x1b[0m"), terminal.seen)
    terminal.type("/exit\r")
    check("/exit ends with 0", terminal.end() == 0, terminal.seen)


def while_nobody_types(folder):
    """What earlier runs used is read at the prompt; keys are taken meanwhile, and signals do not lose the line."""
    flags = ["-n", "40", "--ram", "20M", "--reader", "threads"]
    terminal = Terminal(folder, *flags, "--history")
    ready = terminal.prompted()
    terminal.type("Once upon a time\r")
    check("a first run is remembered", ready and terminal.wait_for(b"ended by") and terminal.prompted(), terminal.seen)
    terminal.type("/exit\r")
    check("and ends", terminal.end() == 0, terminal.seen)
    terminal = Terminal(folder, *flags)
    ready = terminal.prompted()
    time.sleep(1)
    without = terminal.bytes_read()
    terminal.type("/exit\r")
    check("without history nothing is read at the prompt", ready and terminal.end() == 0, terminal.seen)
    terminal = Terminal(folder, *flags, "--history")
    ready = terminal.prompted()
    read = terminal.reads(without + (2 << 20), 30)
    check("with it the cache fills while nobody types", ready and read >= without + (2 << 20), (without, read))
    terminal.type("/nonsen\xe9\u20ac")
    check("a line is typed, with characters of many bytes", terminal.wait_for("\u20ac".encode()), terminal.seen)
    for columns in (60, 100):
        terminal.resize(columns)
        os.kill(terminal.pid, signal.SIGCONT)
        time.sleep(0.1)
    raw = not termios.tcgetattr(terminal.fd)[3] & termios.ICANON
    terminal.type("se\r")
    whole = terminal.wait_for("no command '/nonsen\xe9\u20acse'".encode())
    check("the line is whole after signals", raw and whole and terminal.prompted(), terminal.seen)
    terminal.type("\x04")
    check("and the program ends well", terminal.end() == 0, terminal.seen)


def main():
    with tempfile.TemporaryDirectory() as folder:
        documents()
        by_pipe(folder)
        on_a_terminal(folder, thinking(folder))
        while_nobody_types(folder)
    return 1 if failures else 0


sys.exit(main())
