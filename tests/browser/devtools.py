"""Controls a headless browser by the DevTools protocol (JSON over a WebSocket). Uses only the standard library."""
import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser_path():
    return next((found for found in map(shutil.which, NAMES) if found), None)


class WebSocket:
    """A WebSocket client (RFC 6455). Sent messages are masked and have one frame; received ones may have several."""

    def __init__(self, host, port, path):
        self.socket = socket.create_connection((host, port), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise OSError("the browser refused the WebSocket: " + head.decode("latin-1"))

    def _more(self):
        got = self.socket.recv(65536)
        if not got:
            raise OSError("the browser closed the connection")
        self.buffer += got

    def _take(self, count):
        while len(self.buffer) < count:
            self._more()
        out, self.buffer = self.buffer[:count], self.buffer[count:]
        return out

    def _frame(self, kind, data):
        size = len(data)
        head = bytes([0x80 | kind]) + (bytes([0x80 | size]) if size < 126 else
                                       struct.pack(">BH", 0xFE, size) if size < 65536 else struct.pack(">BQ", 0xFF, size))
        mask = os.urandom(4)
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def send(self, text):
        self._frame(1, text.encode())

    def receive(self):
        message = b""
        while True:
            first, second = self._take(2)
            size = second & 0x7F
            if size > 125:
                size = struct.unpack(">H", self._take(2))[0] if size == 126 else struct.unpack(">Q", self._take(8))[0]
            data = self._take(size)
            if first & 0x0F == 9:
                self._frame(10, data)  # answers a ping with a pong
            elif first & 0x0F == 8:
                raise OSError("the browser closed the connection")
            else:
                message += data
                if first & 0x80:
                    return message.decode()


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tinytorch-browser-")
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            [browser_path(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--remote-debugging-port=0", f"--user-data-dir={self.folder}/profile", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log)
        self.number, self.events = 0, []
        self.socket = WebSocket(*self._address())
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.page(domain + ".enable")

    def _address(self):
        for _ in range(300):
            self.log.flush()
            with open(self.log.name, encoding="utf-8", errors="replace") as log:
                found = re.search(r"DevTools listening on ws://([^:/]+):(\d+)(/\S+)", log.read())
            if found:
                return found[1], int(found[2]), found[3]
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise OSError("the browser did not start")

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.receive())
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise OSError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def page(self, method, **parameters):
        return self.call(method, self.session, **parameters)

    def wait_for(self, method, seconds=20):
        """Waits for an event of this name, removes it from self.events, and returns its parameters."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for i, event in enumerate(self.events):
                if event.get("method") == method:
                    return self.events.pop(i)["params"]
            self.page("Runtime.getIsolateId")  # the reply arrives after all earlier events, so it fetches them
            time.sleep(0.02)
        raise OSError(f"no {method} within {seconds} s")

    def open(self, url):
        self.events = [e for e in self.events if e.get("method") != "Page.loadEventFired"]
        self.page("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")
        self.page("Runtime.getIsolateId")

    def evaluate(self, expression):
        result = self.page("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise OSError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def html(self):
        root = self.page("DOM.getDocument")["root"]
        return self.page("DOM.getOuterHTML", nodeId=root["nodeId"])["outerHTML"]

    def overflow(self):
        """The width of the page minus the width of the window, in CSS pixels."""
        metrics = self.page("Page.getLayoutMetrics")
        return metrics["cssContentSize"]["width"] - metrics["cssLayoutViewport"]["clientWidth"]

    def window(self, width, height=900, dark=False, script=True):
        self.page("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.page("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.page("Emulation.setScriptExecutionDisabled", value=not script)

    def screenshot(self):
        return base64.b64decode(self.page("Page.captureScreenshot", format="png")["data"])

    def complaints(self, base):
        """Errors, warnings, policy violations and requests to other hosts since the last call."""
        out = []
        for event in self.events:
            method, p = event.get("method"), event.get("params", {})
            if method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                out.append(f"{p['entry']['source']}: {p['entry']['text']}")
            elif method == "Runtime.exceptionThrown":
                out.append("exception: " + p["exceptionDetails"].get("text", ""))
            elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
                out.append("console: " + str([a.get("value") for a in p["args"]]))
            elif method == "Network.requestWillBeSent" and not p["request"]["url"].startswith(base):
                out.append("request to another host: " + p["request"]["url"][:200])
        self.events = []
        return out

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
