"""Tests examples/serve.cpp over HTTP: the answers, streams, errors and limits, clients that go away, and the end of the program.
Prints `ok - name`, `not ok - name` or `skipped - name: reason` for each check.

  python3 tests/serving/run.py build/bin/examples/serve
  python3 tests/serving/run.py build/bin/examples/serve --aborts 10000 --packages FOLDER

The client is the `openai` package if it can be imported, from a virtual environment in FOLDER for example, else urllib; a line
says which. Errors and limits are always tested by plain HTTP.
"""
import argparse
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

KEY = "secret-key"
CONTEXT = 256  # of the bundled model
CHAT = [{"role": "user", "content": "does the cat sleep? "}]


class Failure(Exception):
    pass


def require(condition, why):
    if not condition:
        raise Failure(why)


def equal(got, wanted, what):
    require(got == wanted, f"{what}: {got!r}, expected {wanted!r}")


class Server:
    """A running server with the bundled model, which a few steps train. Its texts are of no use, but always the same."""

    def __init__(self, program, *flags):
        self.program = program
        environment = dict(os.environ, OMP_WAIT_POLICY="passive")
        self.process = subprocess.Popen([str(program), "--port", "0", "--train-steps", "30", *flags], stdout=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, env=environment)
        lines = []
        for line in iter(self.process.stdout.readline, b""):
            lines.append(line.decode())
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", lines[-1])
            if found:
                break
        else:
            raise Failure(f"{program} printed no address, but {lines!r}")
        self.port = int(found[1])
        self.base = f"http://127.0.0.1:{self.port}"
        self.rest = []
        self.reader = threading.Thread(target=lambda: self.rest.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def ask(self, method, path, body=None, headers=None, timeout=120):
        """(status, headers, text) of a request. A body that is not bytes is sent as JSON."""
        all_headers = {"Authorization": f"Bearer {KEY}"}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            all_headers["Content-Type"] = "application/json"
        all_headers.update(headers or {})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, {k: v for k, v in all_headers.items() if v is not None})
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()
        finally:
            connection.close()

    def gauge(self, name):
        text = self.ask("GET", "/metrics")[2]
        found = re.search(rf"^{name} (\S+)$", text, re.M)
        require(found, f"/metrics has no {name}")
        return float(found[1])

    def wait_for(self, name, value, seconds=20):
        deadline = time.monotonic() + seconds
        while self.gauge(name) != value:
            require(time.monotonic() < deadline, f"{name} is {self.gauge(name)}, expected {value}")
            time.sleep(0.05)

    def resident(self):
        """Bytes of memory of the process."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class PlainClient:
    """The API by http.client alone."""
    name = "urllib"

    def __init__(self, server):
        self.server = server

    def create(self, kind, **fields):
        status, _, text = self.server.ask("POST", path_of(kind), fields)
        require(status == 200, f"{kind}: {status} {text[:300]}")
        return json.loads(text)

    def stream(self, kind, **fields):
        status, _, text = self.server.ask("POST", path_of(kind), dict(fields, stream=True))
        require(status == 200, f"{kind}: {status} {text[:300]}")
        events = [part.removeprefix("data: ") for part in text.split("\n\n") if part]
        equal(events[-1], "[DONE]", "the last event")
        return [json.loads(event) for event in events[:-1]]

    def models(self):
        return [m["id"] for m in json.loads(self.server.ask("GET", "/v1/models")[2])["data"]]


class OpenAIClient:
    """The same calls by the package `openai`."""
    OWN = ("ignore_eos", "top_k", "min_p", "repetition_penalty")  # fields that the package does not know

    def __init__(self, server, openai):
        self.name = f"openai {openai.__version__}"
        self.client = openai.OpenAI(base_url=server.base + "/v1", api_key=KEY, max_retries=0, timeout=120)

    def call(self, kind, fields):
        fields = dict(fields, model=fields.get("model", "grammar"))
        extra = {name: fields.pop(name) for name in self.OWN if name in fields}
        ask = self.client.completions if kind == "text" else self.client.chat.completions
        return ask.create(**fields, extra_body=extra)

    def create(self, kind, **fields):
        return self.call(kind, fields).model_dump()

    def stream(self, kind, **fields):
        return [chunk.model_dump() for chunk in self.call(kind, dict(fields, stream=True))]

    def models(self):
        return [m.id for m in self.client.models.list()]


def path_of(kind):
    return "/v1/completions" if kind == "text" else "/v1/chat/completions"


def texts_of(kind, reply):
    return [c["text"] if kind == "text" else c["message"]["content"] for c in reply["choices"]]


def joined(kind, events, n=1):
    """The texts and the reasons of the ends of a stream."""
    texts, reasons = [""] * n, [None] * n
    for event in events:
        for c in event["choices"]:
            texts[c["index"]] += (c["text"] if kind == "text" else c["delta"].get("content")) or ""
            reasons[c["index"]] = c["finish_reason"] or reasons[c["index"]]
    return texts, reasons


def asked(kind, **fields):
    """A request of either kind."""
    return dict({"prompt": "the cat"} if kind == "text" else {"messages": CHAT}, max_tokens=24, **fields)


KINDS = ("text", "chat")


# --- answers ------------------------------------------------------------------------------------------------------

def check_models(server, client):
    """the model is listed"""
    equal(client.models(), ["grammar"], "the models")
    equal(server.ask("GET", "/v1/models/grammar")[0], 200, "the model by its name")


def check_answers(server, client):
    """completions and chats have text, usage and a reason"""
    for kind in KINDS:
        reply = client.create(kind, **asked(kind, seed=1, ignore_eos=True))
        equal(reply["object"], "text_completion" if kind == "text" else "chat.completion", "object")
        equal(reply["usage"]["completion_tokens"], 24, "completion tokens")
        equal(reply["usage"]["total_tokens"], reply["usage"]["prompt_tokens"] + 24, "all tokens")
        equal(reply["choices"][0]["finish_reason"], "length", "reason")
        require(texts_of(kind, reply)[0], "the text is empty")


def check_token_prompts(server, client):
    """prompts as text, as tokens and as arrays of both give the same texts"""
    one = client.create("text", prompt=[5, 6, 7], max_tokens=8, seed=3)
    several = client.create("text", prompt=[[5, 6, 7], [8]], max_tokens=8, seed=3)
    equal(texts_of("text", several)[0], texts_of("text", one)[0], "the first of two prompts")
    equal(several["usage"]["prompt_tokens"], 4, "prompt tokens")
    both = client.create("text", prompt=["the cat", "the dog"], max_tokens=8, seed=3)
    for i, prompt in enumerate(["the cat", "the dog"]):
        equal(texts_of("text", both)[i], texts_of("text", client.create("text", prompt=prompt, max_tokens=8, seed=3))[0], prompt)


def check_streams(server, client):
    """a stream gives the text without a stream, for many seeds, with stops and with several choices"""
    for kind in KINDS:
        for seed in range(8):
            fields = asked(kind, seed=seed, n=2, stop=["e c", "\n"] if seed % 2 else None)
            whole = client.create(kind, **fields)
            events = client.stream(kind, **fields, stream_options={"include_usage": True})
            texts, reasons = joined(kind, events, 2)
            equal(texts, texts_of(kind, whole), f"{kind}, seed {seed}")
            equal(reasons, [c["finish_reason"] for c in whole["choices"]], "the reasons")
            equal(events[-1]["choices"], [], "choices of the last event")
            usage = {k: events[-1]["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")}
            equal(usage, {k: whole["usage"][k] for k in usage}, "usage")


def check_stop(server, client):
    """a stop string ends a text before it"""
    text = texts_of("text", client.create("text", **asked("text", seed=1)))[0]
    stop = text[5:8]
    reply = client.create("text", **asked("text", seed=1, stop=stop))
    equal(texts_of("text", reply)[0], text[:text.index(stop)], "the text")
    equal(reply["choices"][0]["finish_reason"], "stop", "the reason")


def check_choices(server, client):
    """choice j has the seed plus j; temperature 0 gives one text; logit_bias forces a token"""
    for kind in KINDS:
        texts = texts_of(kind, client.create(kind, **asked(kind, seed=10, n=3)))
        for j, text in enumerate(texts):
            equal(texts_of(kind, client.create(kind, **asked(kind, seed=10 + j)))[0], text, f"choice {j}")
        require(len(set(texts)) == 3, "the choices are equal")
        same = texts_of(kind, client.create(kind, **asked(kind, temperature=0, n=3)))
        equal(len(set(same)), 1, "different texts with temperature 0")
    without = {texts_of("text", client.create("text", **asked("text")))[0] for _ in range(3)}
    require(len(without) > 1, "requests without a seed give one text")
    forced = client.create("text", prompt="a", max_tokens=5, logit_bias={"7": 100})
    equal(len(set(texts_of("text", forced)[0])), 1, "characters of a forced token")


def check_logprobs(server, client):
    """log probabilities are those of the text, and the most likely token of temperature 0 is the first"""
    reply = client.create("text", **asked("text", temperature=0, logprobs=3, ignore_eos=True))
    found = reply["choices"][0]["logprobs"]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        equal(len(found[name]), 24, f"length of {name}")
    require(all(x <= 0 for x in found["token_logprobs"]), "a log probability above 0")
    for token, logprob, top in zip(found["tokens"], found["token_logprobs"], found["top_logprobs"]):
        equal(max(top, key=top.get), token, "the most likely token")
        require(abs(top[token] - logprob) < 1e-9, "two values of one token")
    text = texts_of("text", reply)[0]
    if all(not t.startswith("bytes:") for t in found["tokens"]):
        equal(re.sub(r"<\|\w+\|>", "", "".join(found["tokens"])), text, "the tokens, without special ones")
    chat = client.create("chat", **asked("chat", seed=2, logprobs=True, top_logprobs=2, ignore_eos=True))
    content = chat["choices"][0]["logprobs"]["content"]
    equal(len(content), 24, "tokens of a chat")
    equal(bytes(b for t in content for b in t["bytes"]).decode(errors="replace").count("\ufffd") > 0,
          "\ufffd" in texts_of("chat", chat)[0], "unfinished characters")
    require(all(len(t["top_logprobs"]) == 2 for t in content), "two most likely tokens")
    events = client.stream("chat", **asked("chat", seed=2, logprobs=True, top_logprobs=2, ignore_eos=True))
    streamed = [t for e in events for c in e["choices"] if c["logprobs"] for t in c["logprobs"]["content"]]
    equal([(t["token"], t["logprob"]) for t in streamed], [(t["token"], t["logprob"]) for t in content], "the stream's tokens")


def check_concurrent(server, client):
    """16 clients at the same time get the texts that each gets alone"""
    requests = [(kind, asked(kind, seed=100 + i, temperature=0.8)) for i in range(16) for kind in KINDS]
    alone = [texts_of(kind, client.create(kind, **fields))[0] for kind, fields in requests]
    with ThreadPoolExecutor(16) as pool:
        whole = list(pool.map(lambda r: texts_of(r[0], client.create(r[0], **r[1]))[0], requests))
        streamed = list(pool.map(lambda r: joined(r[0], client.stream(r[0], **r[1]))[0][0], requests))
    equal(whole, alone, "the texts of 16 clients")
    equal(streamed, alone, "the streams of 16 clients")


def check_pages(server, client):
    """/metrics, /health and the chat page"""
    text = server.ask("GET", "/metrics")[2]
    for name in ("time_to_first_token", "time_per_output_token", "request_duration"):
        require(re.search(rf"^gen_ai_server_{name}_seconds_count\{{.*\}} [1-9]", text, re.M), f"/metrics counts no {name}")
    for line in text.splitlines():
        require(line.startswith("#") or re.fullmatch(r"[a-z_:]+(\{[^{}]*\})? [-+.e\dInf]+", line), f"/metrics has {line!r}")
    equal(server.ask("GET", "/health", headers={"Authorization": None})[0], 200, "/health")
    status, headers, page = server.ask("GET", "/", headers={"Authorization": None})
    require(status == 200 and "<html" in page and "//" not in re.sub(r"data: /", "", page), "the page, without addresses of others")
    require("default-src 'none'" in headers["Content-Security-Policy"], "the page may load other files")


# --- errors and limits --------------------------------------------------------------------------------------------

def check_errors(server, client):
    """errors have the right status and OpenAI's form"""
    good = {"prompt": "a", "max_tokens": 2}
    path = "/v1/completions"
    cases = [("broken JSON", 400, path, b'{"prompt": "a"', {}), ("no UTF-8", 400, path, b'{"prompt": "\xff"}', {}),
             ("deep JSON", 400, path, b"[" * 90000, {}), ("an empty body", 400, path, b"", {}),
             ("a wrong type", 400, path, {"prompt": "a", "n": "2"}, {}), ("an unknown field", 400, path, {"prompt": "a", "x": 1}, {}),
             ("a long prompt", 400, path, {"prompt": [1] * 400}, {}), ("too many tokens", 400, path, dict(good, max_tokens=1000), {}),
             ("no such token", 400, path, {"prompt": [100000]}, {}), ("too many texts", 400, path, dict(good, n=100), {}),
             ("a large body", 413, path, {"prompt": "a" * 200_000}, {}), ("another model", 404, path, dict(good, model="gpt-9"), {}),
             ("a wrong key", 401, path, good, {"Authorization": "Bearer secret-kez"}), ("no key", 401, path, good, {"Authorization": None}),
             ("another type", 415, path, good, {"Content-Type": "text/plain"}),
             ("a compressed body", 415, path, good, {"Content-Encoding": "gzip"}),
             ("no such address", 404, "/v1/nothing", good, {}), ("a wrong method", 405, "/v1/models", good, {}),
             ("messages without a role", 400, "/v1/chat/completions", {"messages": [{"content": "a"}]}, {})]
    for name, wanted, where, body, headers in cases:
        status, _, text = server.ask("POST", where, body, headers)
        equal(status, wanted, name)
        error = json.loads(text)["error"]
        require(set(error) == {"message", "type", "param", "code"} and error["message"], f"{name}: {text}")
    equal(json.loads(server.ask("POST", path, {"prompt": "a", "n": "2"})[2])["error"]["param"], "n", "the name of the field")
    equal(server.ask("POST", path, good)[0], 200, "a good request after all these")


def check_raw_http(server, client):
    """what is no HTTP, or ends early, is refused, and the server goes on"""
    for raw in (b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99\r\n\r\n{",
                b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 100_000,
                b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
            with contextlib.suppress(OSError):
                s.sendall(raw)
                s.shutdown(socket.SHUT_WR)
                while s.recv(4096):
                    pass
    equal(server.ask("GET", "/health")[0], 200, "/health")


def open_stream(server, seed=0, n=1, tokens=200, receive_buffer=None):
    """A connection with a stream that has begun, or None if it was refused."""
    body = json.dumps({"prompt": "the", "max_tokens": tokens, "seed": seed, "n": n, "stream": True, "ignore_eos": True}).encode()
    s = socket.socket()
    if receive_buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    s.settimeout(60)
    s.connect(("127.0.0.1", server.port))
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: Bearer " +
              KEY.encode() + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return s


def check_too_many(server, client):
    """more texts than allowed: 429 with Retry-After, and no text is lost"""
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(open_stream(server, seed=i, n=8, tokens=240)) for i in range(12)]
        refused = 0
        for s in streams:
            text = b""
            while part := s.recv(65536):
                text += part
                if b"[DONE]" in text or b"429 " in text[:20]:
                    break
            refused += b"429 " in text[:20]
            require(b"429 " not in text[:20] or b"Retry-After:" in text, "429 without Retry-After")
            require(b"429 " in text[:20] or b"[DONE]" in text, "a stream that was accepted has no end")
        require(refused > 0, "12 requests of 8 texts were accepted by a server of 32")
    server.wait_for("tinytorch_kv_pages_held", 0)


def check_aborts(server, client, count):
    """clients that go away free their pages, and memory does not grow"""
    def abort(i):
        with open_stream(server, seed=i, tokens=200) as s:
            if i % 3:  # else it leaves before the first byte
                s.recv(100 + i % 400)
            if i % 5 == 0:  # the connection is reset, not closed
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with ThreadPoolExecutor(16) as pool:
        for _ in pool.map(abort, range(count // 4)):
            pass
        before = server.resident()
        for _ in pool.map(abort, range(count)):
            pass
    server.wait_for("tinytorch_kv_pages_held", 0)
    server.wait_for("tinytorch_requests_running", 0)
    grown = (server.resident() - before) / 2**20
    require(grown < 64, f"the memory grew by {grown:.0f} MB")
    print(f"# {count} aborted streams: memory grew by {grown:.1f} MB")


def check_slow_readers(server, client):
    """clients that do not read their streams do not delay others"""
    with contextlib.ExitStack() as stack:
        for i in range(8):
            stack.enter_context(open_stream(server, seed=i, n=2, tokens=240, receive_buffer=2048))
        began = time.monotonic()
        alone = [texts_of("text", client.create("text", **asked("text", seed=i)))[0] for i in range(4)]
        took = time.monotonic() - began
        require(took < 60, f"four short texts took {took:.0f} s")
    server.wait_for("tinytorch_kv_pages_held", 0)
    equal(alone, [texts_of("text", client.create("text", **asked("text", seed=i)))[0] for i in range(4)], "the texts")


# --- the end of the program ---------------------------------------------------------------------------------------

def read_end(s):
    text = b""
    while part := s.recv(65536):
        text += part
        if text.endswith(b"\r\n0\r\n\r\n"):
            break
    return text


def check_drain(server, client):
    """SIGTERM: running streams end whole, new requests get 503, and the program ends with 0"""
    fields = {"prompt": "the", "max_tokens": 250, "seed": 5, "n": 16, "ignore_eos": True}
    with open_stream(server, seed=5, n=16, tokens=250) as s:
        first = s.recv(1000)
        server.process.send_signal(signal.SIGTERM)
        statuses = []
        with contextlib.suppress(OSError):
            while not statuses or statuses[-1] != 503:
                statuses.append(server.ask("POST", "/v1/completions", dict(fields, max_tokens=1, n=1), timeout=5)[0])
        text = first + read_end(s)
    require(b"[DONE]" not in first, "a long stream arrived at once, at its end")
    require(b"data: [DONE]" in text, "the running stream has no end")
    equal(text.count(b'"finish_reason":"length"'), 16, "texts that ended")
    require(503 in statuses, f"new requests got {statuses}")
    equal(server.process.wait(60), 0, "the exit status")


def check_second_signal(server, client):
    """a second signal ends the program at once"""
    with open_stream(server, n=16, tokens=250) as s:
        s.recv(100)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.01)
        server.process.send_signal(signal.SIGINT)
        began = time.monotonic()
        status = server.process.wait(30)
        require(time.monotonic() - began < 10, "the program did not end at once")
        require(status in (0, 130), f"exit status {status}")


def check_timeout(server, client):
    """a request that takes too long: 504, and an event in a stream"""
    fields = {"prompt": "the", "max_tokens": 250, "n": 30, "ignore_eos": True}
    status, _, text = server.ask("POST", "/v1/completions", fields)
    equal(status, 504, "the status")
    equal(json.loads(text)["error"]["code"], "timeout", "the code")
    status, _, text = server.ask("POST", "/v1/completions", dict(fields, stream=True))
    require(status == 200 and '"code":"timeout"' in text and "[DONE]" not in text, f"the stream ends with {text[-200:]}")
    server.wait_for("tinytorch_kv_pages_held", 0)


def check_saved_model(server, client, folder):
    """a server of the saved model (--model) gives the texts of the one that trained it, also with a cache of few pages"""
    requests = [(kind, asked(kind, seed=i)) for i in range(4) for kind in KINDS]
    texts = [texts_of(kind, client.create(kind, **fields)) for kind, fields in requests]
    other = Server(server.program, *FLAGS, "--model", folder, "--pages", "20", "--budget", "7")
    try:
        plain = PlainClient(other)
        name = Path(folder).name
        equal(plain.models(), [name], "the models")
        with ThreadPoolExecutor(8) as pool:
            again = list(pool.map(lambda r: texts_of(r[0], plain.create(r[0], **dict(r[1], model=name))), requests))
        equal(again, texts, "the texts")
        equal(other.end(), 0, "the exit status")
    finally:
        other.close()


FLAGS = ("--api-key", KEY, "--max-concurrent", "32", "--max-body", "100000", "--pages", "512", "--page", "16")


def load_client(folder):
    if folder:
        sys.path[:0] = [str(p) for p in Path(folder).glob("lib/python*/site-packages")]
    try:
        import openai
        return openai
    except ImportError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--aborts", type=int, default=200, help="streams that are aborted")
    parser.add_argument("--packages", help="a virtual environment with the package openai")
    options = parser.parse_args()
    openai, failed = load_client(options.packages), False

    def run(check, *arguments):
        nonlocal failed
        name = check.__doc__.splitlines()[0]
        try:
            check(*arguments)
            print(f"ok - {name}", flush=True)
        except Exception as problem:  # a check that breaks is a failed check
            failed = True
            print(f"not ok - {name}\n    {type(problem).__name__}: {str(problem)[:1500]}", flush=True)

    @contextlib.contextmanager
    def serving(*flags):
        server = Server(options.program, *FLAGS, *flags)
        try:
            yield server, OpenAIClient(server, openai) if openai else PlainClient(server)
        finally:
            server.close()

    with tempfile.TemporaryDirectory() as folder, serving("--save", f"{folder}/saved") as (server, client):
        print(f"# the client is {client.name}")
        if not openai:
            print("skipped - the package openai as the client: it is not installed (pip install openai); urllib was the client")
        for check in (check_models, check_answers, check_token_prompts, check_streams, check_stop, check_choices, check_logprobs,
                      check_concurrent, check_pages, check_errors, check_raw_http, check_too_many, check_slow_readers):
            run(check, server, client)
        run(check_saved_model, server, client, f"{folder}/saved")
        run(check_aborts, server, client, options.aborts)
        run(check_drain, server, client)
    for check, flags in ((check_second_signal, ()), (check_timeout, ("--timeout", "0.02"))):
        with serving(*flags) as (server, client):
            run(check, server, client)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
