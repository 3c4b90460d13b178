// The three files that pages load: one style sheet, one script, one icon. Pages load nothing else, and
// nothing from other sites.
#pragma once

#include <string>
#include <tinytorch/benchmarking/svg.hpp>

namespace tinymlperf::board {

// Colours of text on their ground have a contrast of at least 4.5, light and dark (tests compute it).
inline constexpr const char* kColours = R"(:root{color-scheme:light dark;
--ground:#fafaf8;--raised:#ffffff;--ink:#1c2127;--soft:#57606a;--line:#dfe2e6;--accent:#0b57a4;--tint:#eef3f9;
--gold:#6f4e00;--gold-ground:#fbf0cf;--green:#14602b;--green-ground:#ddf3e2;--red:#9b1c1c;--red-ground:#fde6e4;
--blue-ground:#e2eefb;--grey-ground:#eceef1;--button:#0b57a4;--on-button:#ffffff}
@media (prefers-color-scheme:dark){:root{
--ground:#11151a;--raised:#181d23;--ink:#e7ecf1;--soft:#a5b0bb;--line:#2c353e;--accent:#86b9ff;--tint:#1b2530;
--gold:#f0cf7a;--gold-ground:#3a2f10;--green:#8bdba0;--green-ground:#123320;--red:#ffb0a8;--red-ground:#43191a;
--blue-ground:#162d4a;--grey-ground:#272e36;--button:#86b9ff;--on-button:#0c1218}}
)";

inline constexpr const char* kLayout = R"(*,*::before,*::after{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);font:1rem/1.6 system-ui,-apple-system,"Segoe UI",sans-serif;overflow-wrap:anywhere}
.column{max-width:76rem;margin:0 auto;padding:0 1.25rem}
main.column{padding-top:2.5rem;padding-bottom:4rem}main:focus{outline:none}
h1{font-size:clamp(1.6rem,1.2rem + 2vw,2.4rem);line-height:1.2;font-weight:650;letter-spacing:-.02em;margin:0 0 .75rem;text-wrap:balance}
h2{font-size:1.3rem;line-height:1.3;font-weight:620;letter-spacing:-.01em;margin:3rem 0 1rem}
h3{font-size:1.05rem;line-height:1.4;font-weight:600;margin:1.75rem 0 .35rem}
p{margin:.35rem 0 .9rem;max-width:70ch}.lead{font-size:1.1rem;color:var(--soft);margin-bottom:1.5rem}
a{color:var(--accent);text-underline-offset:.18em;text-decoration-thickness:.06em}a:hover{text-decoration-thickness:.12em}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:3px}
.soft,small,.by,.note,caption,dt,figcaption,.why,.date{color:var(--soft)}small{font-size:.82em}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.skip{position:absolute;left:1rem;top:-4rem;padding:.6rem 1rem;background:var(--button);color:var(--on-button);z-index:2}.skip:focus{top:.5rem}
.top{border-bottom:1px solid var(--line);background:var(--raised)}
.top .column{display:flex;flex-wrap:wrap;gap:.25rem 2rem;align-items:center;padding-top:.7rem;padding-bottom:.7rem}
.brand{font-weight:680;letter-spacing:-.02em;font-size:1.15rem;color:var(--ink);text-decoration:none}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.4rem;list-style:none;margin:0;padding:0}
nav a{display:inline-block;padding:.35rem 0;text-decoration:none}nav a:hover{text-decoration:underline}
nav a[aria-current]{color:var(--ink);font-weight:600;box-shadow:0 2px 0 var(--accent)}
.tabs{border-bottom:1px solid var(--line);margin:0 0 1.5rem}.pages{margin:1.25rem 0}.pages li{padding:.35rem 0}
.bottom{border-top:1px solid var(--line);font-size:.88rem;color:var(--soft)}.bottom .column{padding-top:1.25rem;padding-bottom:2rem}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(17rem,100%),1fr));gap:1rem;list-style:none;margin:0;padding:0}
.card{background:var(--raised);border:1px solid var(--line);border-radius:.7rem;padding:1.1rem 1.25rem}.card h3{margin-top:0}
.card .value{font-size:1.6rem;font-weight:640;letter-spacing:-.02em;line-height:1.25;margin:.1rem 0 .3rem;font-variant-numeric:tabular-nums}
.card .leader{margin-bottom:.5rem}.card .why{font-size:.9rem;margin:0}.card .soft.value{font-weight:400}
figure{margin:1.25rem 0}figcaption{font-size:.9rem;margin-top:.5rem;max-width:70ch}
.chart{max-width:60rem;background:var(--raised);border:1px solid var(--line);border-radius:.7rem;padding:1rem 1.1rem}
details{margin:.75rem 0}summary{cursor:pointer;padding:.3rem 0;font-weight:550}
.run{border-top:1px solid var(--line);padding-top:.25rem;margin-top:1.5rem}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(14rem,100%),1fr));gap:.85rem 1.5rem;margin:1rem 0 1.5rem}
.facts dt{font-size:.85rem}.facts dd{margin:0;font-variant-numeric:tabular-nums}
.problem{background:var(--red-ground);color:var(--red);padding:.7rem 1rem;border-radius:.5rem;max-width:none}.words{white-space:pre-line}
)";

inline constexpr const char* kTables =
    R"(.scroll{overflow-x:auto;position:relative;border:1px solid var(--line);border-radius:.7rem;background:var(--raised);margin:.9rem 0 1.25rem}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums;overflow-wrap:normal}
caption{text-align:left;padding:.8rem 1rem .5rem;font-size:.88rem;overflow-wrap:anywhere}
th,td{padding:.65rem .6rem;text-align:left;vertical-align:top;border-top:1px solid var(--line);white-space:nowrap}
thead th{border-top:0;font-size:.82rem;font-weight:550;color:var(--soft);vertical-align:bottom}thead th small{display:block;font-weight:400}
td.number,th.number{text-align:right}.rank{font-weight:640;text-align:right}abbr{text-decoration:none}
.entry{font-weight:600;min-width:12rem;max-width:24rem;white-space:normal;overflow-wrap:anywhere}
.by,.note{display:block;font-weight:400;font-size:.86rem;line-height:1.45}td.words{white-space:pre-line;min-width:12rem;overflow-wrap:anywhere}
tr.band{background:var(--tint)}.score .interval{display:block;margin-top:.2rem}.under{display:block;font-size:.82em;font-weight:400;color:var(--soft)}
.interval .even{stroke:var(--soft);stroke-dasharray:2 2}.interval .span{stroke:var(--accent);stroke-width:2.5;stroke-linecap:round}.interval .dot{fill:var(--accent)}
th button{font:inherit;color:inherit;background:none;border:0;padding:.2rem 0;margin:0;cursor:pointer;text-align:inherit}th button:hover{color:var(--ink)}
th[aria-sort=ascending] button::after{content:" ↑"}th[aria-sort=descending] button::after{content:" ↓"}
.badge{display:inline-block;padding:.05rem .55rem;border-radius:1rem;font-size:.8rem;font-weight:550;background:var(--grey-ground);color:var(--ink);white-space:nowrap;position:relative}
.under .badge{padding:0 .4rem;margin-top:.25rem;font-size:1em}.gold{background:var(--gold-ground);color:var(--gold)}.green{background:var(--green-ground);color:var(--green)}
.red{background:var(--red-ground);color:var(--red)}.blue{background:var(--blue-ground);color:var(--ink)}
code,pre{font:.86rem/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{overflow-x:auto;max-height:32rem;margin:.75rem 0;padding:1rem;background:var(--raised);border:1px solid var(--line);border-radius:.5rem;overflow-wrap:normal}
.added{color:var(--green);background:var(--green-ground)}.removed{color:var(--red);background:var(--red-ground)}.place{color:var(--soft)}
mark{background:var(--gold-ground);color:var(--gold);border-radius:.2rem}
form label{display:block;font-weight:550}form input,form textarea{font:inherit;color:inherit;background:var(--ground);border:1px solid var(--soft);border-radius:.4rem;padding:.5rem .65rem;width:100%;max-width:28rem}
button[type=submit]{font:inherit;font-weight:600;background:var(--button);color:var(--on-button);border:0;border-radius:.4rem;padding:.6rem 1.2rem;cursor:pointer}
progress{width:9rem;height:.6rem;accent-color:var(--accent);vertical-align:middle}#progress{width:100%;max-width:30rem;height:.9rem}
@media (prefers-reduced-motion:no-preference){.skip{transition:top .15s}}
@media (max-width:40rem){.column{padding:0 .9rem}th,td{padding:.55rem .7rem}.entry{min-width:9rem}.chart{padding:.5rem}}
@media print{.top,.skip,form{display:none}}
)";

inline std::string style_sheet() {
  return std::string(kColours) + kLayout + kTables + tinytorch::svg::chart_style();
}

// Pages work without the script. It sorts a table by a click or a key on a column's head, and follows jobs.
inline constexpr const char* kScript =
    R"(// Sorts tables and follows jobs. Without this file every page still says all it has to say.
"use strict";
(() => {
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    return cell.textContent.trim().toLowerCase();
  };
  const compare = (a, b) => {
    const numbers = typeof a === "number" && typeof b === "number";
    if (numbers) return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b);
  };
  const sortBy = (table, head) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => [keyOf(row, head.cellIndex), row]);
    rows.sort((a, b) => (down ? -compare(a[0], b[0]) : compare(a[0], b[0])));
    for (const [, row] of rows) body.append(row);
  };
  for (const head of document.querySelectorAll("th[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sortBy(head.closest("table"), head));
  }

  // The page with the result; a pause, because its jobs may end at once again. What a visitor has written is not lost.
  const written = () => Array.from(document.querySelectorAll("form input, form textarea"))
    .some((field) => field.value !== field.defaultValue);
  const reload = (seconds, why) => setTimeout(() => {
    if (!written()) location.reload();
    else document.getElementById("fresh").textContent = why + " Load the page again for the result.";
  }, 1000 * seconds);
  const ended = () => reload(0.5, "The jobs have ended.");
  const refused = () => reload(5, "The jobs cannot be followed now.");

  // Tells what happens to a job, until its end or until nobody answers. The browser has six connections to a site and
  // may keep a page that was left, so that "back" is quick: no page keeps one meanwhile.
  const follow = (address, progress, end) => {
    let events, over = false;
    const ask = () => {
      events = new EventSource(address);
      events.addEventListener("progress", (event) => progress(JSON.parse(event.data)));
      events.addEventListener("end", () => { over = true; events.close(); end(); });
      events.addEventListener("error", () => { if (events.readyState === EventSource.CLOSED) { over = true; refused(); } });
    };
    addEventListener("pagehide", () => events.close());
    addEventListener("pageshow", (event) => { if (event.persisted && !over) ask(); });
    ask();
  };

  const live = document.getElementById("live");
  if (live) follow(live.dataset.events, (job) => {
    document.getElementById("progress").value = job.progress;
    document.getElementById("message").textContent = job.message;
    document.querySelector("#state .badge").textContent = job.state;
  }, ended);

  // The jobs of a submission, one after the other, as they are played.
  const rows = Array.from(document.querySelectorAll("tr[data-events]"));
  const followRow = (number) => {
    if (number === rows.length) return ended();
    const row = rows[number];
    follow(row.dataset.events, (job) => {
      const badge = row.querySelector(".badge");
      row.querySelector("progress").value = job.progress;
      row.querySelector("td.words").textContent = job.message;
      badge.textContent = job.state;
      badge.className = "badge" + ({running: " blue", done: " green", failed: " red"}[job.state] || "");
    }, () => followRow(number + 1));
  };
  if (rows.length > 0) followRow(0);
})();
)";

inline constexpr const char* kIcon =
    R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0b57a4"/><path d="M7 23v-6h4v6zm7 0V9h4v14zm7 0v-9h4v9z" fill="#fff"/></svg>)";

}  // namespace tinymlperf::board
