// The page of one submission: its manifest, its measurements turn by turn, and its files.
#pragma once

#include <string>
#include <tinymlperf/board/pages/badges.hpp>

namespace tinymlperf::board {

namespace detail {

inline constexpr size_t kLongNote = 4000;

inline std::string joined(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& w : list) out += (out.empty() ? "" : ", ") + words(w, 60);
  return out.empty() ? kUnknown : out;
}

inline std::string pairs(const std::vector<std::pair<std::string, std::string>>& items) {
  std::vector<std::pair<std::string, std::string>> html;
  for (const auto& [term, value] : items) html.emplace_back(text(term, 80), text(value, 500));
  return facts(html);
}

inline std::string manifest(const Submission& s) {
  std::vector<std::pair<std::string, std::string>> items{
      {"Number", fmt::format("{}", s.id)},
      {"Author", s.author.empty() ? kUnknown : name(s.author, 200)},
      {"Team", s.team.empty() ? kUnknown : name(s.team, 200)},
      {"Division", text(s.division, 60)},
      {"Tier", tier_badge(s.tier)},
      {"Benchmarks", joined(s.benchmarks)},
      {"Scenarios", joined(s.scenarios)},
      {"Licence", s.licence.empty() ? kUnknown : text(s.licence, 200)},
      {"Submitted", text(s.date, 60)},
      {"Bundle (SHA-256)", "<code>" + text(s.bundle, 80) + "</code>"}};
  if (s.compiled) items.emplace_back("Forward pass", "compiled (<code>\"compile\": true</code>)");
  std::string out = facts(items);
  if (!s.claims.empty()) out += "<h3>Claims of the author</h3>\n" + pairs(s.claims);
  return out;
}

inline std::string turns_chart(const Submission& s, const Run& run) {
  std::vector<double> all = run.turns;
  all.insert(all.end(), run.baseline_turns.begin(), run.baseline_turns.end());
  if (all.empty()) return "";
  const AxisUnit unit = axis_unit(all, run.measure);
  const auto series = [&](const std::string& label, const std::vector<double>& turns) {
    svg::Series out{.label = clean(label, 20)};
    for (size_t i = 0; i < turns.size(); ++i)
      out.x.push_back(static_cast<double>(i + 1)), out.y.push_back(unit.factor * turns[i]);
    return out;
  };
  svg::Series own = series(s.name, run.turns), base = series(run.baseline, run.baseline_turns);
  if (own.label.empty()) own.label = "submission";
  if (base.label.empty()) base.label = "baseline";
  return "<figure class=\"chart\">" +
         svg::line_chart("Turn by turn", {.title = "turn, in the order of time", .whole = true},
                         {.title = unit.title}, {own, base}) +
         "<figcaption>Submission and baseline took turns; a machine that drifts moves both "
         "lines.</figcaption></figure>\n";
}

inline std::string audits_table(const Run& run, size_t index) {
  if (run.audits.empty()) return "<p class=\"soft\">No audit was made in this run.</p>\n";
  std::string out =
      open_table(fmt::format("audits-{}", index), "Audits", {{"Audit"}, {"Name"}, {"Result"}, {"Detail"}});
  for (const Audit& a : run.audits)
    out += "<tr><th scope=\"row\">" + text(a.id, 20) + "</th>" + cell(text(a.name, 80)) +
           cell(a.passed     ? "<span class=\"badge green\">passed</span>"
                : !a.made    ? "<span class=\"badge\">not made</span>"
                : !a.decided ? "<span class=\"badge\">not decided</span>"
                             : "<span class=\"badge red\">failed</span>") +
           cell(text(a.detail, 500), "words") + "</tr>\n";
  return out + close_table();
}

// A match of kernels op by op, with the reason of each wrong one.
inline std::string ops_table(const Run& run, size_t index) {
  if (run.ops.empty()) return "";
  std::string out = open_table(fmt::format("ops-{}", index), "Op by op, times the baseline [95 %]",
                               {{"Op", "", true},
                                {"State", "", true},
                                {"Times the baseline", "number", true},
                                {"On hidden shapes", "number", true},
                                {"Reason"}});
  const auto ratio = [](const std::optional<Interval>& i) {
    return i ? cell(show_interval(*i, 3), "number", i->estimate) : cell(kUnknown, "number");
  };
  for (const OpRow& op : run.ops) {
    const char* css = op.state == "right" ? " green" : op.state == "wrong" ? " red" : "";
    out += "<tr><th scope=\"row\">" + name(op.op, 40) + "</th>" +
           cell(fmt::format("<span class=\"badge{}\">{}</span>", css, text(op.state, 20))) + ratio(op.ratio) +
           ratio(op.hidden) + cell(op.reason.empty() ? "" : text(op.reason, 1000), "words") + "</tr>\n";
  }
  return out + close_table();
}

// The result for kernels, and the table that it counts for.
inline std::vector<std::pair<std::string, std::string>> kernel_facts(const Site& site, const Submission& s,
                                                                     const Run& run) {
  const KernelCount& k = *run.kernels;
  std::vector<std::pair<std::string, std::string>> out{
      {"Ops right", fmt::format("{} of {}", k.right, k.ops)},
      {"Memory at its peak", show_size(run.peak_bytes)},
      {"Table", link(site.table({run.benchmark, s.division, run.hardware, s.tier}), "all kernels")}};
  const char* terms[] = {"fast<sub>1</sub>", "fast<sub>1.5</sub>", "fast<sub>2</sub>"};
  for (size_t i = 0; i < 3 && k.fast; ++i) out.emplace_back(terms[i], show_share((*k.fast)[i]));
  return out;
}

// A held result, and the operator's decisions.
inline std::string review_section(const Run& run) {
  if (!run.held) return "";
  std::string out =
      "<p><strong>Held for audit.</strong> It is better than was to be expected, as an audit above "
      "says.</p>\n";
  if (run.reviews.empty()) return out + "<p class=\"soft\">Nobody has looked at it yet.</p>\n";
  for (const Review& r : run.reviews)
    out +=
        fmt::format("<p><span class=\"badge{}\">{}</span> <span class=\"date\">{}</span></p>\n",
                    r.released ? " green" : " red", r.released ? "released" : "refused", text(r.date, 40)) +
        "<p class=\"words\">" + text(r.reason, kLongNote) + "</p>\n";
  return out;
}

// The appeal of a refused run, or the form for it.
inline std::string appeal_section(const Site& site, const Submission& s, const Run& run, size_t index) {
  if (run.appeal) {
    const Appeal& a = *run.appeal;
    std::string out = fmt::format("<p><strong>Appeal {}</strong> <span class=\"date\">{}</span></p>\n", a.id,
                                  text(a.date, 40)) +
                      "<p class=\"words\">" + text(a.note, kLongNote) + "</p>\n";
    if (a.answered.empty()) return out + "<p class=\"soft\">It has no answer yet.</p>\n";
    return out + "<p><strong>Answer</strong> <span class=\"date\">" + text(a.answered, 40) +
           "</span></p>\n<p class=\"words\">" + text(a.answer, kLongNote) + "</p>\n";
  }
  if (site.exported || !run.refused) return "";
  return fmt::format(
      R"(<details><summary>Appeal</summary>
<form method="post" action="/appeal" class="card">
<p>Whose submission this is may say once why this run was refused wrongly. It is published here, with the answer, and changes no rank.</p>
<input type="hidden" name="submission" value="{0}"/>
<input type="hidden" name="run" value="{1}"/>
<p><label for="note-{2}">Your note</label> <textarea id="note-{2}" name="note" rows="4" maxlength="2000" required="required"></textarea></p>
<p><label for="owner-{2}">Your token</label> <input id="owner-{2}" name="token" type="password" maxlength="200" required="required" autocomplete="off"/></p>
<p><button type="submit">Appeal</button></p>
</form>
</details>
)",
      s.id, run.id, index);
}

// The times of a generation beside the baseline's.
inline std::string token_facts(const Run& run) {
  const auto both = [&](double TokenTimes::*time) {
    std::string out = "<b>" + document::show_seconds((*run.tokens).*time) + "</b>";
    if (run.baseline_tokens)
      out += " <small>baseline " + document::show_seconds((*run.baseline_tokens).*time) + "</small>";
    return out;
  };
  return facts({{"Time to first token", both(&TokenTimes::to_first)},
                {"Time per token", both(&TokenTimes::per_token)}});
}

inline std::string run_section(const Site& site, const Submission& s, const Run& run, size_t index) {
  std::string out =
      fmt::format("<article class=\"run\" aria-labelledby=\"run-{}\">\n<h3 id=\"run-{}\">", index, index);
  out += text(run.benchmark, 60) + ", " + words(run.scenario, 60) + "</h3>\n";
  if (!run.out.empty())
    out += "<p class=\"problem\"><strong>Thrown out:</strong> " + text(run.out, 1000) + "</p>\n";
  if (!run.load.empty())
    out += "<p class=\"problem\"><strong>Busy machine:</strong> " + text(run.load, 200) + "</p>\n";
  out += facts(
      {{"Number", fmt::format("{}", run.id)},
       {"Times the baseline", run.ratio ? show_interval(*run.ratio, 3) : kUnknown},
       {run.kernels ? "Right answers" : "Quality", run.quality ? show_interval(*run.quality, 4) : kUnknown},
       {"Measure", text(run.measure, 80)},
       {"Baseline", run.baseline.empty() ? kUnknown : name(run.baseline)},
       {"Class of run", text(run.run_class, 40)},
       {"Hardware", text(run.hardware, 80)},
       {"Date", text(run.date, 40)},
       {"Seed", fmt::format("<code>{}</code>", run.seed)}});
  if (run.tokens) out += token_facts(run);
  if (run.kernels) out += facts(kernel_facts(site, s, run)) + ops_table(run, index);
  out += turns_chart(s, run) + audits_table(run, index);
  if (!run.system.empty())
    out += "<details><summary>Machine and sandbox</summary>\n" + pairs(run.system) + "</details>\n";
  return out + review_section(run) + appeal_section(site, s, run, index) + "</article>\n";
}

// The page stays readable, whatever size the bundle has.
inline constexpr size_t kMostShown = 65536;
inline std::string shortened_note(size_t bytes) {
  if (bytes <= kMostShown) return "";
  return fmt::format("<p class=\"soft\">The first {} of {}; the bundle has the rest.</p>\n",
                     document::show_bytes(kMostShown), document::show_bytes(bytes));
}

inline std::string files_section(const Submission& s) {
  if (s.files.empty()) return "<p>The bundle holds no file that can be shown.</p>\n";
  std::string out = open_table("files", "Files of the bundle", {{"Path"}, {"Size", "number"}, {"SHA-256"}}),
              texts;
  for (const File& f : s.files) {
    out += "<tr><th scope=\"row\" class=\"entry\">" + name(f.path, 200) + "</th>" +
           cell(show_size(f.bytes), "number") + cell("<code>" + text(f.sha256, 80) + "</code>") + "</tr>\n";
    if (!f.text.empty())
      texts += "<details><summary>" + name(f.path, 200) + "</summary>\n<pre tabindex=\"0\"><code>" +
               code(std::string_view(f.text).substr(0, kMostShown)) + "</code></pre>" +
               shortened_note(f.text.size()) + "</details>\n";
  }
  return out + close_table() + texts;
}

// The library's headers that it replaces.
inline std::string replaced_section(const Submission& s) {
  if (s.replaced.empty()) return "";
  std::string out =
      "<section aria-labelledby=\"replaced\"><h2 id=\"replaced\">Headers of the library that it "
      "replaces</h2>\n"
      "<p>Its answers come from the library's code on these headers of its own; the judge is built without "
      "them.</p>\n<ul>\n";
  for (const std::string& header : s.replaced) out += "<li><code>" + text(header, 200) + "</code></li>\n";
  return out + "</ul>\n</section>\n";
}

// Findings of the static rules in its source.
inline std::string reasons_section(const Submission& s) {
  if (s.tier == "T0") return "";
  std::string out =
      "<section aria-labelledby=\"reasons\"><h2 id=\"reasons\">Reasons to look at the source</h2>\n"
      "<p>No verdicts: the sandbox holds it whatever it says, and audits decide.</p>\n";
  if (s.reasons.empty()) return out + "<p>None were found.</p>\n</section>\n";
  out += "<ul>\n";
  for (const std::string& reason : s.reasons) out += "<li>" + text(reason, 300) + "</li>\n";
  return out + "</ul>\n</section>\n";
}

// A unified diff, one span a line.
inline std::string diff_block(const std::string& whole) {
  const std::string diff = whole.substr(0, kMostShown);
  std::string out = "<pre class=\"diff\" tabindex=\"0\"><code>";
  for (size_t at = 0; at < diff.size();) {
    const size_t end = std::min(diff.find('\n', at), diff.size());
    const std::string line = diff.substr(at, end - at);
    const bool head = line.starts_with("@@") || line.starts_with("--- ") || line.starts_with("+++ ");
    const char* css = head                    ? "place"
                      : line.starts_with("+") ? "added"
                      : line.starts_with("-") ? "removed"
                                              : "";
    out += *css ? fmt::format("<span class=\"{}\">{}</span>\n", css, code(line)) : code(line) + "\n";
    at = end + 1;
  }
  return out + "</code></pre>\n" + shortened_note(whole.size());
}

inline std::string similarity_section(const Site& site, const std::vector<Similarity>& all) {
  std::string out =
      "<section aria-labelledby=\"similarity\"><h2 id=\"similarity\">Similarity</h2>\n<p class=\"soft\">What "
      "it "
      "has in "
      "common with earlier submissions of others, counted when it came; what a baseline holds is left out. "
      "This is a "
      "count and no verdict.</p>\n<ul>\n";
  for (const Similarity& l : all)
    out +=
        fmt::format("<li>{:.0f} % of its {} {} are in {} of {}, which came first.</li>\n",
                    100 * static_cast<double>(l.shared) / static_cast<double>(std::max<int64_t>(l.total, 1)),
                    show_number(static_cast<double>(l.total)), l.kind == "code" ? "shingles" : "tensors",
                    link(site.submission(l.submission), fmt::format("submission {}", l.submission)) + ", " +
                        name(l.name) + ",",
                    name(l.author));
  return out + "</ul>\n</section>\n";
}

// Without script this page is not reloaded, since a visitor may be writing into one of its forms.
inline std::string jobs_section(const Site& site, const std::vector<Job>& jobs) {
  const bool live = !site.exported && !std::all_of(jobs.begin(), jobs.end(), ended);
  std::string out = "<section aria-labelledby=\"jobs\"><h2 id=\"jobs\">Jobs</h2>\n" +
                    jobs_table(site, "job-list", "Jobs of this submission", jobs, live);
  if (live)
    out +=
        "<p id=\"fresh\" role=\"status\"></p>\n<noscript><p>The table says what was so when this page was "
        "loaded. A job's own page loads itself again.</p></noscript>\n";
  return out + "</section>\n";
}

inline std::string head_to_head_form(const Submission& s) {
  return fmt::format(
      R"(<form method="post" action="/head-to-head" class="card">
<p>The judge runs this submission and another in turns with each other. You need a token.</p>
<input type="hidden" name="submission" value="{}"/>
<p><label for="against">Against submission number</label> <input id="against" name="against" type="number" min="1" required="required" inputmode="numeric"/></p>
<p><label for="token">Your token</label> <input id="token" name="token" type="password" maxlength="200" required="required" autocomplete="off"/></p>
<p><button type="submit">Ask for a match</button></p>
</form>
)",
      s.id);
}

inline std::string withdrawal_form(const Submission& s) {
  return fmt::format(
      R"(<details><summary>Withdraw this submission</summary>
<form method="post" action="/withdraw" class="card">
<p>Its owner may withdraw it, and an instructor may hide it: its waiting jobs are cancelled, it leaves its tables, and this page shows the reason alone. It still counts for the day's quota.</p>
<input type="hidden" name="submission" value="{}"/>
<p><label for="why">Reason</label> <textarea id="why" name="note" rows="3" maxlength="2000" required="required"></textarea></p>
<p><label for="withdrawer">Your token</label> <input id="withdrawer" name="token" type="password" maxlength="200" required="required" autocomplete="off"/></p>
<p><button type="submit">Withdraw</button></p>
</form>
</details>
)",
      s.id);
}

// The files of a private board before its deadline.
inline std::string sealed_section(const Submission& s) {
  return "<section aria-labelledby=\"file-list\"><h2 id=\"file-list\">Files</h2>\n<p>Sources are hidden "
         "until " +
         (s.sealed_until->empty() ? "this board's instructor shows them" : text(*s.sealed_until, 40)) +
         ".</p>\n" + files_section(s) + "</section>\n";
}

// The page of a hidden submission. It tells who hid it, when and why, its number, author, date and jobs, and
// nothing of its content.
inline std::string hidden_page(const Site& site, const Submission& s) {
  const Hiding& h = *s.hiding;
  std::string body = "<h1>" + name(s.name, 200) + "</h1>\n<p class=\"problem\"><strong>" +
                     (h.by_owner ? "Withdrawn by its owner" : "Hidden by the instructor") +
                     "</strong> <span class=\"date\">" + text(h.date, 40) +
                     "</span></p>\n<p class=\"words\">" + text(h.reason, kLongNote) + "</p>\n";
  body += facts({{"Number", fmt::format("{}", s.id)},
                 {"Author", s.author.empty() ? kUnknown : name(s.author, 200)},
                 {"Submitted", text(s.date, 60)}});
  if (!s.jobs.empty()) body += jobs_section(site, s.jobs);
  return page(site, Here::elsewhere, s.name.empty() ? fmt::format("Submission {}", s.id) : s.name, body);
}

}  // namespace detail

inline std::string submission_page(const Site& site, const Submission& s) {
  using namespace detail;
  if (s.hiding) return hidden_page(site, s);
  std::string body =
      "<h1>" + name(s.name, 200) + "</h1>\n<p>" + level_badge(s.level) + " " + tier_badge(s.tier) + "</p>\n";
  if (s.name.size() > 200)
    body += "<details><summary>The whole name</summary><p>" + name(s.name, std::string::npos) +
            "</p></details>\n";
  if (!s.note.empty()) body += "<p class=\"lead words\">" + text(s.note, 20000) + "</p>\n";
  body += "<section aria-labelledby=\"manifest\"><h2 id=\"manifest\">Manifest</h2>\n" + manifest(s) +
          "</section>\n";
  body += "<section aria-labelledby=\"runs\"><h2 id=\"runs\">Runs</h2>\n";
  if (s.runs.empty()) body += "<p>The judge has not run it yet.</p>\n";
  for (size_t i = 0; i < s.runs.size(); ++i) body += run_section(site, s, s.runs[i], i);
  body += "</section>\n";
  if (!s.jobs.empty()) body += jobs_section(site, s.jobs);
  if (!site.exported)
    body += "<section aria-labelledby=\"match\"><h2 id=\"match\">Head to head</h2>\n" + head_to_head_form(s) +
            withdrawal_form(s) + "</section>\n";
  if (s.sealed_until)
    return page(site, Here::elsewhere, s.name.empty() ? fmt::format("Submission {}", s.id) : s.name,
                body + sealed_section(s));
  body += replaced_section(s) + reasons_section(s);
  if (!s.similarities.empty()) body += similarity_section(site, s.similarities);
  body += "<section aria-labelledby=\"difference\"><h2 id=\"difference\">Difference to the baseline</h2>\n";
  body += s.difference.empty() ? "<p>None that can be shown.</p>\n" : diff_block(s.difference);
  body += "</section>\n<section aria-labelledby=\"file-list\"><h2 id=\"file-list\">Files</h2>\n" +
          files_section(s) + "</section>\n";
  return page(site, Here::elsewhere, s.name.empty() ? fmt::format("Submission {}", s.id) : s.name, body);
}

}  // namespace tinymlperf::board
