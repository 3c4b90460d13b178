"""The leaderboard in a real browser: pages load in silence, fit a narrow window, work without script, follow a job.
Prints `ok - name`, `not ok - name` and `skipped - name: why`.

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

PAGES = {  # and a text that a reader must find there
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
    """A board with made-up data, served by bench_board."""

    def __init__(self, program, *flags):
        self.process = subprocess.Popen([str(program), "--serve", *flags], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        line = self.process.stdout.readline().decode()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/", line)
        require(found, f"{program} --serve said {line!r}")
        self.base = found[1]

    def close(self):
        self.process.terminate()
        return self.process.wait(20)


def check_self(browser, site):
    """The tools of the other checks find a missing page, a page that is too wide and violations of the policy."""
    browser.window(320)
    browser.open(site.base + "/nowhere")
    require(any("404" in c for c in browser.complaints(site.base)), "a missing page was not noticed")
    browser.open(site.base + "/")
    browser.complaints(site.base)
    browser.evaluate("document.body.append(Object.assign(document.createElement('div'), {id: 'wide'})); "
                     "Object.assign(document.getElementById('wide').style, {width: '2000px', height: '9px'})")
    require(browser.overflow() > 1000, "a page that is too wide was not noticed")
    browser.evaluate("document.body.setAttribute('onclick', 'x'); document.head.append(document.createElement('style')); "
                     "document.head.lastChild.textContent = 'p{}'; fetch('https://example.org/').catch(() => 0)")
    complaints = browser.complaints(site.base)
    require(any("Content Security Policy" in c for c in complaints), f"violations were not noticed: {complaints}")


def check_pages(browser, site, width, dark, script):
    for path, text in PAGES.items():
        browser.window(width, dark=dark, script=script)
        browser.open(site.base + path)
        html = browser.html()
        require(text in html, f"{path} lacks {text!r}")
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
    """Pages full of hostile text: nothing of it runs, asks elsewhere or widens the page."""
    site = Site(program, "--hostile")
    try:
        ids = [i for i in range(100, 140) if answers(f"{site.base}/submissions/{i}")]
        require(len(ids) > 10, f"only {len(ids)} submissions with hostile text were found")
        for path in ["/", "/queue"] + [f"/submissions/{i}" for i in ids] + [f"/jobs/{i + 200}" for i in ids]:
            browser.window(320)
            browser.open(site.base + path)
            complaints = browser.complaints(site.base)
            require(not complaints, f"{path}: " + "; ".join(complaints[:5]))
            require(browser.overflow() <= 0, f"{path} is {browser.overflow()} px too wide")
            require(browser.evaluate("document.scripts.length") == 1, f"{path} has more than its own script")
    finally:
        site.close()


def check_dark(browser, site):
    def ground():
        return browser.evaluate("getComputedStyle(document.body).backgroundColor")
    browser.window(1280)
    browser.open(site.base + "/")
    light = ground()
    browser.window(1280, dark=True)
    require(sum(map(int, re.findall(r"\d+", light)[:3])) > 600, f"light is {light}")
    require(sum(map(int, re.findall(r"\d+", ground())[:3])) < 150, f"dark is {ground()}")


def press(browser, key, code, text=""):
    for kind in ("keyDown", "keyUp"):
        more = {"text": text} if text and kind == "keyDown" else {}
        browser.page("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)


def check_keyboard(browser, site):
    """The first Tab leads to the skip link; a table is sorted by Enter on a column's head, and says how."""
    browser.window(1280)
    browser.open(site.base + "/tables/dig/closed/cpu-1t")
    press(browser, "Tab", 9)
    require(browser.evaluate("document.activeElement.className") == "skip", "the first stop is not the skip link")
    outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    require(outline == "solid", f"the focus cannot be seen: {outline}")
    heads = "Array.from(document.querySelectorAll('th[data-sort]'))"
    names = "Array.from(document.querySelectorAll('tbody th a'), (a) => a.textContent)"
    before = browser.evaluate(names)
    browser.evaluate(f"{heads}.find((h) => h.textContent.startsWith('Model')).querySelector('button').focus()")
    press(browser, "Enter", 13, "\r")
    upwards = browser.evaluate(names)
    require(upwards != before and upwards[0] == "pruned 90 %" and upwards[-1] == "lenet", f"Enter sorted {upwards}")
    press(browser, "Enter", 13, "\r")
    require(browser.evaluate(names) == upwards[::-1], "Enter did not turn the order round")
    sorted_by = browser.evaluate(f"{heads}.filter((h) => h.hasAttribute('aria-sort'))"
                                 ".map((h) => h.textContent + h.getAttribute('aria-sort'))")
    require(sorted_by == ["Modeldescending"], f"aria-sort says {sorted_by}")
    require(not browser.complaints(site.base), "sorting was not silent")


def upload(browser, site, name):
    """Sends a bundle by the form, as a visitor would; the browser is then at the job's page."""
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
    require(re.fullmatch(r"/jobs/\d+", where), f"the form led to {where}")
    return where


def wait_until(what, seconds):
    """`what` may fail while the browser is between two pages."""
    until, problem = time.monotonic() + seconds, "it was never so"
    while time.monotonic() < until:
        try:
            if what():
                return
        except OSError as between:
            problem = str(between)
        time.sleep(0.1)
    raise Failure(f"not within {seconds} s: {problem}")


def check_live(browser, site):
    """A job is followed to its end without loading the page, then the page is loaded once more."""
    upload(browser, site, "live")
    browser.evaluate("window.first = true")
    seen = []

    def over():
        seen.append(browser.evaluate("[document.getElementById('progress')?.value, window.first === true, "
                                     "document.querySelector('#state .badge')?.textContent]"))
        return seen[-1][1:] == [False, "done"]
    wait_until(over, 40)
    moved = [value for value, first, _ in seen if first and value is not None]
    require(len(set(moved)) >= 3 and moved == sorted(moved), f"the bar stood at {moved}")
    require(not browser.complaints(site.base), "following was not silent")


def check_live_submission(browser, site):
    """A submission's page follows its job in the table; what a visitor writes there is not lost when the job ends."""
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
    require(len(set(moved)) >= 2 and moved == sorted(moved), f"the bar stood at {moved}")
    require(seen[-1][1] and "have ended" in seen[-1][3], f"the page with a written form was loaded again: {seen[-1]}")
    upload(browser, site, "followed, nothing written")
    where = browser.evaluate("document.querySelector('.facts a[href^=\"/submissions/\"]').getAttribute('href')")
    require(not over("")[-1][1], "the page was not loaded again")
    require(not browser.complaints(site.base), "following was not silent")


def check_appeal(browser, site):
    """A refused run is appealed against by its form, and the note stands escaped where the form was."""
    browser.window(320)
    browser.open(site.base + "/submissions/9")
    browser.evaluate("document.querySelector('form[action=\"/appeal\"]').closest('details').open = true; "
                     "document.getElementById('note-0').value = 'one <b>line</b>\\nand two'; "
                     "document.getElementById('owner-0').value = 'secret'")
    require(browser.overflow() <= 0, "the open form is wider than the page")
    browser.events = []
    browser.evaluate("document.querySelector('form[action=\"/appeal\"] button').click()")
    browser.wait_for("Page.loadEventFired")
    html = browser.html()
    require("one &lt;b&gt;line&lt;/b&gt;\nand two" in html, "the appeal is not there, or not as it was written")
    require('action="/appeal"' not in html, "a second appeal is offered")


def check_left(browser, site):
    """Pages that follow a job give their connection back when they are left: the browser has six for a site, and keeps left
    pages for a minute. Back on such a page, the job is followed again."""
    browser.window(320)
    began = time.monotonic()
    for _ in range(8):
        browser.open(site.base + "/jobs/2")
        browser.open(site.base + "/queue")
    took = time.monotonic() - began
    require(took < 25, f"sixteen pages took {took:.0f} s")
    browser.events = []
    browser.evaluate("history.back()")

    def followed():
        browser.evaluate("0")  # brings the events
        return any(e.get("method") == "Network.requestWillBeSent" and e["params"]["request"]["url"].endswith("/jobs/2/events")
                   for e in browser.events)
    wait_until(followed, 20)


def check_pause(browser, site):
    """A page whose jobs end at once, again and again, is loaded again after a pause, not in a spin."""
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
    require("head-to-head" in browser.html(), "the form did not lead to a match")


def check_stop(site):
    code = site.close()
    require(code == 0, f"the server ended with {code} after SIGTERM")


def take_screenshots(browser, site, folder):
    """The images of the lesson; made-up data is served."""
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
            continue  # larger, and as good
        with Image.open(path) as image:
            image.convert("RGB").quantize(128).save(path, optimize=True)
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--screenshots", type=Path)
    options = parser.parse_args()
    if not browser_path():
        print("skipped - the leaderboard in a browser: chromium is not here")
        return 0
    site, browser = Site(options.program, "--live"), Browser()
    checks = [("the checks notice what is wrong", lambda: check_self(browser, site))]
    for width in (320, 1280):
        for dark in (False, True):
            for script in (True, False):
                title = f"pages at {width} px, {'dark' if dark else 'light'}, {'with' if script else 'without'} script"
                checks.append((title, lambda w=width, d=dark, s=script: check_pages(browser, site, w, d, s)))
    checks += [("light and dark", lambda: check_dark(browser, site)),
               ("keyboard", lambda: check_keyboard(browser, site)),
               ("a bundle is sent and its job followed", lambda: check_live(browser, site)),
               ("a job is followed from its submission's page", lambda: check_live_submission(browser, site)),
               ("pages that follow a job are left", lambda: check_left(browser, site)),
               ("a job that ends at once", lambda: check_pause(browser, site)),
               ("an appeal", lambda: check_appeal(browser, site)),
               ("a job is followed without script", lambda: check_live_without_script(browser, site)),
               ("a match is asked for", lambda: check_match_form(browser, site)),
               ("hostile text", lambda: check_hostile(browser, options.program)),
               ("the server stops in order", lambda: check_stop(site))]
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
