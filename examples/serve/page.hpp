// The chat page of examples/serve.cpp. It loads nothing else, and talks to /v1/chat/completions.
#pragma once

namespace serve {

inline constexpr const char* kPage = R"html(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tinytorch</title>
<style>
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
  #log p { white-space: pre-wrap; overflow-wrap: anywhere; border-radius: .6rem; padding: .5rem .8rem; margin: .5rem 0; }
  #log .user { background: #8883; margin-left: 4rem; }
  #log .error { color: #c33; }
  form { display: flex; flex-wrap: wrap; gap: .5rem; margin-top: 1rem; }
  textarea { flex: 1 1 100%; font: inherit; padding: .5rem; box-sizing: border-box; }
  label { font-size: .85rem; } input { width: 5rem; } #key { width: 9rem; }
</style>
<h1 id="name">tinytorch</h1>
<div id="log" aria-live="polite"></div>
<form id="form">
  <textarea id="text" rows="3" aria-label="Message" title="Enter sends the message" required></textarea>
  <label>temperature <input id="temperature" type="number" min="0" max="2" step="0.1" value="0.7"></label>
  <label>tokens <input id="most" type="number" min="1" value="100"></label>
  <label>API key <input id="key" type="password" autocomplete="off"></label>
  <button id="send">Send</button> <button id="stop" type="button" disabled>Stop</button>
  <button id="clear" type="button">New chat</button>
</form>
<script>
"use strict";
const $ = id => document.getElementById(id);
let messages = [], running = null;
function headers() {
  const all = {"Content-Type": "application/json"};
  if ($("key").value) all.Authorization = "Bearer " + $("key").value;
  return all;
}
function line(role, text) {
  const p = document.createElement("p");
  p.className = role;
  p.textContent = text;
  $("log").append(p);
  return p;
}
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    waiting += value;
    for (let at; (at = waiting.indexOf("\n\n")) >= 0; waiting = waiting.slice(at + 2)) {
      const data = waiting.slice(0, at).replace(/^data: /, "");
      if (data !== "[DONE]") yield JSON.parse(data);
    }
  }
}
async function send() {
  messages.push({role: "user", content: $("text").value});
  line("user", $("text").value);
  $("text").value = "";
  const p = line("assistant", "");
  running = new AbortController();
  $("send").disabled = true;
  $("stop").disabled = false;
  try {
    const response = await fetch("/v1/chat/completions", {
      method: "POST", headers: headers(), signal: running.signal,
      body: JSON.stringify({messages, stream: true, temperature: +$("temperature").value, max_tokens: +$("most").value})});
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      p.textContent += event.choices[0]?.delta?.content ?? "";
    }
  } catch (error) {
    if (error.name !== "AbortError") line("error", error.message);
  }
  messages.push({role: "assistant", content: p.textContent});
  running = null;
  $("send").disabled = false;
  $("stop").disabled = true;
}
$("form").onsubmit = event => { event.preventDefault(); if (!running) send(); };
$("text").onkeydown = event => {
  if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); $("form").requestSubmit(); }
};
$("stop").onclick = () => running?.abort();
$("clear").onclick = () => { running?.abort(); messages = []; $("log").replaceChildren(); };
fetch("/v1/models", {headers: headers()}).then(r => r.json()).then(r => { if (r.data) $("name").textContent = r.data[0].id; });
</script>
</html>
)html";

}  // namespace serve
