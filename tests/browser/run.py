"""Tests the leaderboard in a real browser: pages load without errors, fit a narrow window, work without scripts, and
follow a job. Prints `ok - name`, `not ok - name` or `skipped - name: reason` for each check.

  python3 tests/browser/run.py build/bin/bench_board [--only WORD]
  python3 tests/browser/run.py build/bin/bench_board --screenshots modules/10_benchmarking/images
"""
import argparse
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from devtools import Browser, browser_path

PAGES = {  # path: a text that the page must contain
    "/": "Who leads",
    "/tables/dig/closed/cpu-1t": "lenet-int8-fused",
    "/tables/dig/closed/cpu-1t/pareto": "Hypervolume of the front",
    "/tables/dig/closed/cpu-1t/history": "Leads, newest first",
    "/tables/dig/open/cpu-mt": "No submission yet.",
    "/submissions/1": "Turn by turn",
    "/submissions/3": "92 % of its 300 shingles",
    "/tables/krn/kernel/cpu-mt/T2": "131.2",
    "/submissions/41": "found nan",
    "/tables/lm/open/cpu-mt": "cached-keys",
    "/submissions/51": "Time to first token",
    "/submissions/8": "The rules say the same answer.",
    "/submissions/9": "Your note",
    "/queue": "One match runs at a time",
    "/submit": "Submit a bundle",
    "/jobs/2": "block 5 of 12",
}


class Failure(Exception):
    pass


def require(condition, why):
    if not condition:
        raise Failure(why)


class Site:
    """A leaderboard with synthetic data, served by bench_board."""

    def __init__(self, program, *flags):
        self.process = subprocess.Popen([str(program), "--serve", *flags], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        line = self.process.stdout.readline().decode()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/", line)
        require(found, f"{program} --serve printed no address, but {line!r}")
        self.base = found[1]

    def close(self):
        self.process.terminate()
        return self.process.wait(20)


def check_self(browser, site):
    """Tests that complaints() and overflow(), which the other checks use, detect errors."""
    browser.window(320)
    browser.open(site.base + "/nowhere")
    require(any("404" in c for c in browser.complaints(site.base)), "a missing page was not detected")
    browser.open(site.base + "/")
    browser.complaints(site.base)
    browser.evaluate("document.body.append(Object.assign(document.createElement('div'), {id: 'wide'})); "
                     "Object.assign(document.getElementById('wide').style, {width: '2000px', height: '9px'})")
    require(browser.overflow() > 1000, "a page that is too wide was not detected")
    browser.evaluate("document.body.setAttribute('onclick', 'x'); document.head.append(document.createElement('style')); "
                     "document.head.lastChild.textContent = 'p{}'; fetch('https://example.org/').catch(() => 0)")
    complaints = browser.complaints(site.base)
    require(any("Content Security Policy" in c for c in complaints), f"policy violations were not detected: {complaints}")


def check_pages(browser, site, width, dark, script):
    for path, text in PAGES.items():
        browser.window(width, dark=dark, script=script)
        browser.open(site.base + path)
        html = browser.html()
        require(text in html, f"{path} does not contain {text!r}")
        require(browser.overflow() <= 0, f"{path} is {browser.overflow()} px wider than a window of {width} px")
        complaints = browser.complaints(site.base)
        require(not complaints, f"{path}: " + "; ".join(complaints[:5]))


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=20):
            return True
    except urllib.error.HTTPError:
        return False


def check_hostile(browser, program):
    """Pages with hostile text: it starts no script, causes no request to another host, and does not widen the page."""
    site = Site(program, "--hostile")
    try:
        ids = [i for i in range(100, 140) if answers(f"{site.base}/submissions/{i}")]
        require(len(ids) > 10, f"only {len(ids)} submissions with hostile text were found")
        for path in ["/", "/queue"] + [f"/submissions/{i}" for i in ids] + [f"/jobs/{i + 200}" for i in ids]:
            browser.window(320)
            browser.open(site.base + path)
            complaints = browser.complaints(site.base)
            require(not complaints, f"{path}: " + "; ".join(complaints[:5]))
            require(browser.overflow() <= 0, f"{path} is {browser.overflow()} px wider than the window")
            require(browser.evaluate("document.scripts.length") == 1, f"{path} must have exactly one script, its own")
    finally:
        site.close()


def check_dark(browser, site):
    def background():
        return browser.evaluate("getComputedStyle(document.body).backgroundColor")
    browser.window(1280)
    browser.open(site.base + "/")
    light = background()
    browser.window(1280, dark=True)
    require(sum(map(int, re.findall(r"\d+", light)[:3])) > 600, f"the light background is {light}")
    require(sum(map(int, re.findall(r"\d+", background())[:3])) < 150, f"the dark background is {background()}")


def press(browser, key, code, text=""):
    for kind in ("keyDown", "keyUp"):
        more = {"text": text} if text and kind == "keyDown" else {}
        browser.page("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)


def check_keyboard(browser, site):
    """The first Tab focuses the skip link. Enter on a column's heading sorts the table and sets aria-sort."""
    browser.window(1280)
    browser.open(site.base + "/tables/dig/closed/cpu-1t")
    press(browser, "Tab", 9)
    require(browser.evaluate("document.activeElement.className") == "skip", "the first Tab did not focus the skip link")
    outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    require(outline == "solid", f"the focused link has no visible outline: {outline}")
    heads = "Array.from(document.querySelectorAll('th[data-sort]'))"
    names = "Array.from(document.querySelectorAll('tbody th a'), (a) => a.textContent)"
    before = browser.evaluate(names)
    browser.evaluate(f"{heads}.find((h) => h.textContent.startsWith('Model')).querySelector('button').focus()")
    press(browser, "Enter", 13, "\r")
    upwards = browser.evaluate(names)
    require(upwards != before and upwards[0] == "pruned 90 %" and upwards[-1] == "lenet",
            f"Enter did not sort by model; the order is {upwards}")
    press(browser, "Enter", 13, "\r")
    require(browser.evaluate(names) == upwards[::-1], "a second Enter did not reverse the order")
    sorted_by = browser.evaluate(f"{heads}.filter((h) => h.hasAttribute('aria-sort'))"
                                 ".map((h) => h.textContent + h.getAttribute('aria-sort'))")
    require(sorted_by == ["Modeldescending"], f"aria-sort is {sorted_by}")
    require(not browser.complaints(site.base), "sorting caused errors")


def upload(browser, site, name):
    """Uploads a bundle with the form. Afterwards the browser shows the page of the job, whose path is returned."""
    browser.window(1280)
    browser.open(site.base + "/submit")
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "mine.tmlp"
        bundle.write_text("bundle " + name, encoding="utf-8")
        root = browser.page("DOM.getDocument")["root"]["nodeId"]
        field = browser.page("DOM.querySelector", nodeId=root, selector="#bundle")["nodeId"]
        browser.page("DOM.setFileInputFiles", nodeId=field, files=[str(bundle)])
        browser.evaluate("document.getElementById('token').value = 'secret'")
        browser.events = []
        browser.evaluate("document.querySelector('form button').click()")
        browser.wait_for("Page.loadEventFired")
    where = browser.evaluate("location.pathname")
    require(re.fullmatch(r"/jobs/\d+", where), f"the form did not lead to a job's page, but to {where}")
    return where


def wait_until(what, seconds):
    """Waits until what() is true. It may raise OSError while the browser loads the next page."""
    until, problem = time.monotonic() + seconds, "the condition was never true"
    while time.monotonic() < until:
        try:
            if what():
                return
        except OSError as between:
            problem = str(between)
        time.sleep(0.1)
    raise Failure(f"timeout after {seconds} s: {problem}")


def check_live(browser, site):
    """The page of a job shows its progress without being reloaded, and is reloaded once when the job ends."""
    upload(browser, site, "live")
    browser.evaluate("window.first = true")
    seen = []

    def over():
        seen.append(browser.evaluate("[document.getElementById('progress')?.value, window.first === true, "
                                     "document.querySelector('#state .badge')?.textContent]"))
        return seen[-1][1:] == [False, "done"]
    wait_until(over, 40)
    moved = [value for value, first, _ in seen if first and value is not None]
    require(len(set(moved)) >= 3 and moved == sorted(moved), f"the progress bar had the values {moved}")
    require(not browser.complaints(site.base), "following the job caused errors")


def check_live_submission(browser, site):
    """The page of a submission follows its job in the table. If the visitor has filled in a form, the page is not reloaded
    when the job ends, so that the input is not lost."""
    upload(browser, site, "followed from the submission")
    where = browser.evaluate("document.querySelector('.facts a[href^=\"/submissions/\"]').getAttribute('href')")

    def over(written):
        browser.window(1280)
        browser.open(site.base + where)
        browser.evaluate(f"window.first = true; document.getElementById('against').value = '{written}'")
        seen = []

        def ended():
            seen.append(browser.evaluate("[document.querySelector('#jobs ~ .scroll progress')?.value, window.first === true, "
                                         "document.querySelector('#jobs ~ .scroll .badge')?.textContent, "
                                         "document.getElementById('fresh')?.textContent]"))
            return seen[-1][2] == "done" and (seen[-1][3] or not seen[-1][1])
        wait_until(ended, 40)
        return seen
    seen = over("7")
    moved = [value for value, first, _, _ in seen if first and value is not None]
    require(len(set(moved)) >= 2 and moved == sorted(moved), f"the progress bar had the values {moved}")
    require(seen[-1][1] and "have ended" in seen[-1][3], f"the page with a filled form was reloaded: {seen[-1]}")
    upload(browser, site, "followed, nothing written")
    where = browser.evaluate("document.querySelector('.facts a[href^=\"/submissions/\"]').getAttribute('href')")
    require(not over("")[-1][1], "the page with an empty form was not reloaded")
    require(not browser.complaints(site.base), "following the job caused errors")


def check_appeal(browser, site):
    """The form of a refused run sends an appeal. Afterwards the page shows the escaped note in place of the form."""
    browser.window(320)
    browser.open(site.base + "/submissions/9")
    browser.evaluate("document.querySelector('form[action=\"/appeal\"]').closest('details').open = true; "
                     "document.getElementById('note-0').value = 'one <b>line</b>\\nand two'; "
                     "document.getElementById('owner-0').value = 'secret'")
    require(browser.overflow() <= 0, "the open form is wider than the window")
    browser.events = []
    browser.evaluate("document.querySelector('form[action=\"/appeal\"] button').click()")
    browser.wait_for("Page.loadEventFired")
    html = browser.html()
    require("one &lt;b&gt;line&lt;/b&gt;\nand two" in html, "the page does not show the appeal as it was written")
    require('action="/appeal"' not in html, "the page offers a second appeal")


def check_left(browser, site):
    """A page that follows a job closes its connection when the visitor leaves it, since a browser has six connections for a
    site and keeps left pages for a minute. When the visitor returns, the page follows the job again."""
    browser.window(320)
    began = time.monotonic()
    for _ in range(8):
        browser.open(site.base + "/jobs/2")
        browser.open(site.base + "/queue")
    took = time.monotonic() - began
    require(took < 25, f"16 pages took {took:.0f} s to load")
    browser.events = []
    browser.evaluate("history.back()")

    def followed():
        browser.evaluate("0")  # receives pending events
        return any(e.get("method") == "Network.requestWillBeSent" and e["params"]["request"]["url"].endswith("/jobs/2/events")
                   for e in browser.events)
    wait_until(followed, 20)


def check_pause(browser, site):
    """If the jobs of a page end at once each time, the page pauses between reloads."""
    ends = ("window.EventSource = class extends EventTarget { "
            "constructor() { super(); setTimeout(() => this.dispatchEvent(new Event('end'))); } close() {} }")
    browser.window(320)
    for path in ("/jobs/2", "/submissions/3"):
        added = browser.page("Page.addScriptToEvaluateOnNewDocument", source=ends)
        browser.open(site.base + path)
        browser.events = []
        time.sleep(3)
        browser.page("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
        loads = sum(e.get("method") == "Page.loadEventFired" for e in browser.events)
        require(1 <= loads <= 6, f"{path} was loaded {loads} times in 3 s")


def check_live_without_script(browser, site):
    where = upload(browser, site, "without script")
    browser.window(1280, script=False)
    browser.open(site.base + where)
    wait_until(lambda: ">done</span>" in browser.html(), 60)


def check_match_form(browser, site):
    browser.window(320, script=False)
    browser.open(site.base + "/submissions/1")
    browser.window(320)
    browser.open(site.base + "/submissions/1")
    browser.evaluate("document.getElementById('against').value = '2'; document.getElementById('token').value = 'secret'")
    browser.events = []
    browser.evaluate("document.querySelector('form button').click()")
    browser.wait_for("Page.loadEventFired")
    require("head-to-head" in browser.html(), "the form did not request a match")


def check_stop(site):
    code = site.close()
    require(code == 0, f"the server exited with code {code} after SIGTERM")


def take_screenshots(browser, site, folder):
    """Writes the images of the lesson. The pages show synthetic data."""
    folder.mkdir(parents=True, exist_ok=True)
    for title, path, dark, height in (("leaderboard_light", "/", False, 2000), ("leaderboard_dark", "/", True, 2000),
                                      ("submission", "/submissions/1", False, 1560)):
        browser.window(1280, height, dark)
        browser.open(site.base + path)
        path = folder / f"{title}.png"
        path.write_bytes(browser.screenshot())
        try:
            from PIL import Image
        except ImportError:
            continue  # without Pillow the file is only larger
        with Image.open(path) as image:
            image.convert("RGB").quantize(128).save(path, optimize=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the built program bench_board")
    parser.add_argument("--only", default="", help="run only the checks whose name contains this text")
    parser.add_argument("--screenshots", type=Path, help="run no check, but write screenshots to this folder")
    options = parser.parse_args()
    if not browser_path():
        print("skipped - the leaderboard in a browser: no Chromium was found")
        return 0
    site, browser = Site(options.program, "--live"), Browser()
    checks = [("the checks detect errors", lambda: check_self(browser, site))]
    for width in (320, 1280):
        for dark in (False, True):
            for script in (True, False):
                title = f"pages at {width} px, {'dark' if dark else 'light'}, {'with' if script else 'without'} scripts"
                checks.append((title, lambda w=width, d=dark, s=script: check_pages(browser, site, w, d, s)))
    checks += [("light and dark color schemes", lambda: check_dark(browser, site)),
               ("a table can be used with the keyboard", lambda: check_keyboard(browser, site)),
               ("a bundle is uploaded and its job followed", lambda: check_live(browser, site)),
               ("the page of a submission follows its job", lambda: check_live_submission(browser, site)),
               ("a page that is left closes its connection", lambda: check_left(browser, site)),
               ("a page pauses between reloads", lambda: check_pause(browser, site)),
               ("an appeal is sent by a form", lambda: check_appeal(browser, site)),
               ("a job is followed without scripts", lambda: check_live_without_script(browser, site)),
               ("a match is requested by a form", lambda: check_match_form(browser, site)),
               ("hostile text has no effect", lambda: check_hostile(browser, options.program)),
               ("the server exits with code 0 after SIGTERM", lambda: check_stop(site))]
    failed = 0
    try:
        if options.screenshots:
            return take_screenshots(browser, site, options.screenshots)
        for title, check in checks:
            if options.only not in title:
                continue
            try:
                browser.events = []
                check()
                print("ok - " + title, flush=True)
            except (Failure, OSError, KeyError) as problem:
                failed += 1
                print(f"not ok - {title}\n  {str(problem)[:2000]}", flush=True)
    finally:
        browser.close()
        if site.process.poll() is None:
            site.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
