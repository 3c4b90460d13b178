// Shared by all pages: escaped text, links, and the frame of a page.
//
// Text is inserted into a page by text(), name() or code() alone. They escape HTML markup, and replace what
// no reader can see (control characters, broken UTF-8, invisible characters and those that change the
// direction of writing) by U+FFFD. A name is isolated, so that letters that are written from right to left
// move nothing beside it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <tinymlperf/board/store/text.hpp>
#include <tinymlperf/board/store/views.hpp>
#include <tinytorch/benchmarking/document.hpp>
#include <vector>

namespace tinymlperf::board {

namespace svg = tinytorch::svg;
namespace document = tinytorch::document;

// ---- text

// Escapes a text for content and attribute values.
inline std::string text(std::string_view s, size_t most = std::string::npos) {
  return svg::escape(clean(s, most));
}

inline constexpr size_t kShortName = 60;

inline std::string name(std::string_view s, size_t most = kShortName) {
  return s.empty() ? "<span class=\"soft\">without a name</span>" : "<bdi>" + text(s, most) + "</bdi>";
}

// Source text. A character that is invisible or that reorders the visible text is written out, so that
// readers see what runs.
inline std::string code(std::string_view s) {
  std::string out, plain;
  const auto write_plain = [&] { out += text(plain), plain.clear(); };
  for (size_t i = 0; i < s.size();) {
    const size_t length = utf8_length(s.substr(i));
    const uint32_t c = length > 0 ? code_point(s.substr(i), length) : 0;
    if (length > 0 && is_deceptive(c)) {
      write_plain();
      out += fmt::format("<mark>U+{:04X}</mark>", c);
    } else {
      plain += s.substr(i, std::max<size_t>(length, 1));
    }
    i += std::max<size_t>(length, 1);
  }
  write_plain();
  return out;
}

// One segment of a path.
inline std::string percent_encode(std::string_view s) {
  std::string out;
  for (const char c : s) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// 64 bits of a text (FNV-1a) as 16 hexadecimal digits.
inline std::string fingerprint(std::string_view s) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", h);
}

// The letters and digits of a text, for a file's name.
inline std::string safe_name(std::string_view s) {
  std::string out;
  for (const char c : s.substr(0, 40)) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return out;
}

// Tables of data alone are the usual ones; their addresses and titles do not name the tier.
inline bool is_usual_tier(const TableKey& k) { return k.tier == TableKey{}.tier; }

// ---- links

// The place of the pages: behind a server, or as files in one folder (without forms and script).
struct Site {
  bool exported = false;

  std::string front() const { return exported ? "index.html" : "/"; }
  std::string queue() const { return exported ? "queue.html" : "/queue"; }
  std::string upload() const { return "/submit"; }
  std::string asset(const char* file) const { return exported ? file : std::string("/") + file; }
  std::string submission(int64_t id) const {
    return exported ? fmt::format("submission-{}.html", id) : fmt::format("/submissions/{}", id);
  }
  std::string job(int64_t id) const {
    return exported ? fmt::format("job-{}.html", id) : fmt::format("/jobs/{}", id);
  }
  // `view`: "", "pareto" or "history".
  std::string table(const TableKey& k, std::string_view view = "") const {
    const std::string parts[] = {percent_encode(k.benchmark), percent_encode(k.division),
                                 percent_encode(k.hardware)};
    const std::string tier = is_usual_tier(k) ? "" : percent_encode(k.tier);
    if (!exported)
      return fmt::format("/tables/{}/{}/{}{}{}{}{}", parts[0], parts[1], parts[2], tier.empty() ? "" : "/",
                         tier, view.empty() ? "" : "/", view);
    std::string key =
        fmt::format("{}-{}-{}{}{}", parts[0], parts[1], parts[2], tier.empty() ? "" : "-", tier);
    // A file's name must not contain %, which a link would have to write as %25, and has at most 255 bytes.
    if (key.find('%') != std::string::npos || key.size() > 80)
      key =
          safe_name(k.benchmark + "-" + k.division + "-" + k.hardware + "-" + tier) + "-" + fingerprint(key);
    return fmt::format("table-{}{}{}.html", key, view.empty() ? "" : "-", view);
  }
};

inline std::string link(const std::string& href, const std::string& html) {
  return "<a href=\"" + svg::escape(href) + "\">" + html + "</a>";
}

inline std::string table_title(const TableKey& k) {
  return name(k.benchmark) + ", " + name(k.division) + ", " + name(k.hardware) +
         (is_usual_tier(k) ? "" : ", tier " + name(k.tier));
}

// ---- the frame

enum class Here { front, queue, upload, elsewhere };

namespace detail {

inline std::string navigation(const Site& site, Here here) {
  struct Item {
    Here here;
    std::string href;
    const char* label;
  };
  std::vector<Item> items{{Here::front, site.front(), "Board"}, {Here::queue, site.queue(), "Queue"}};
  if (!site.exported) items.push_back({Here::upload, site.upload(), "Submit"});
  std::string out;
  for (const Item& i : items)
    out += fmt::format("<li><a href=\"{}\"{}>{}</a></li>\n", i.href,
                       i.here == here ? " aria-current=\"page\"" : "", i.label);
  return out;
}

}  // namespace detail

// `title` is plain text, `body` HTML with the one h1; `head` goes into <head>.
inline std::string page(const Site& site, Here here, std::string_view title, const std::string& body,
                        const std::string& head = "") {
  const std::string script =
      site.exported ? "" : "<script src=\"" + site.asset("board.js") + "\" defer=\"defer\"></script>\n";
  return fmt::format(
      R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>{title} · TinyMLPerf</title>
<link rel="stylesheet" href="{style}"/>
<link rel="icon" type="image/svg+xml" href="{icon}"/>
{script}{head}</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top"><div class="column">
<a class="brand" href="{front}">TinyMLPerf</a>
<nav aria-label="Main"><ul>
{navigation}</ul></nav>
</div></header>
<main id="main" class="column" tabindex="-1">
{body}</main>
<footer class="bottom"><div class="column">
<p>TinyMLPerf is an independent teaching harness. It is not affiliated with MLCommons, whose trademark MLPerf is.</p>
</div></footer>
</body>
</html>
)",
      fmt::arg("title", text(title, 80)), fmt::arg("style", site.asset("style.css")),
      fmt::arg("icon", site.asset("icon.svg")), fmt::arg("script", script), fmt::arg("head", head),
      fmt::arg("front", site.front()), fmt::arg("navigation", detail::navigation(site, here)),
      fmt::arg("body", body));
}

}  // namespace tinymlperf::board
