// Maps an address to its page or document, independent of HTTP.
#pragma once

#include <optional>
#include <string>
#include <tinymlperf/board/pages/assets.hpp>
#include <tinymlperf/board/pages/error.hpp>
#include <tinymlperf/board/pages/front.hpp>
#include <tinymlperf/board/pages/history.hpp>
#include <tinymlperf/board/pages/job.hpp>
#include <tinymlperf/board/pages/pareto.hpp>
#include <tinymlperf/board/pages/queue.hpp>
#include <tinymlperf/board/pages/submission.hpp>
#include <tinymlperf/board/pages/table.hpp>
#include <tinymlperf/board/pages/upload.hpp>
#include <tinymlperf/board/store/source.hpp>
#include <tinymlperf/board/web/forms.hpp>
#include <tinymlperf/board/web/json.hpp>
#include <tinymlperf/board/web/page_cache.hpp>
#include <tinymlperf/board/web/request.hpp>

namespace tinymlperf::board {

struct Reply {
  int status = 200;
  std::string type, body;
  std::string location = {};  // target of a redirection
  std::string etag = {};      // tag of a cached page
};

inline Reply html_reply(std::string body) { return {200, "text/html; charset=utf-8", std::move(body)}; }
inline Reply json_reply(const Json& document, int status = 200) {
  return {status, "application/json", json_text(document)};
}
inline Reply problem_reply(const Problem& p, bool json) {
  if (json) return json_reply({{"error", {{"status", p.status}, {"reason", p.reason}}}}, p.status);
  Reply out = html_reply(error_page({}, p.status, p.reason));
  out.status = p.status;
  return out;
}

// A weak ETag: the bytes differ if they are compressed.
inline std::string etag_of(const std::string& body) { return "W/\"" + fingerprint(body) + "\""; }

// Addresses for GET, and addresses for POST.
inline constexpr const char* kReading = "GET, HEAD";
inline const char* methods_of(const Address& a) {
  if (a.parts == std::vector<std::string>{"submit"}) return "GET, HEAD, POST";
  for (const Form& form : forms())
    if (a.parts == std::vector<std::string>{form.address}) return "POST";
  return kReading;
}

class Pages {
 public:
  // `age`: how much older than the board a page of many entries may be.
  Pages(Source& source, int64_t most_bytes, std::chrono::milliseconds age = {})
      : source_(source), most_bytes_(most_bytes), kept_(age) {}

  // `json`: the visitor asked for it by a header. What a user sees by his token is kept for nobody else.
  Reply operator()(const Address& address, bool json, const Viewer& viewer = {}) {
    json = json || address.json;
    if (viewer.user) return formed(address, json, viewer);
    if (address.parts.size() == 2 && address.parts[0] == "submissions") {
      const auto id = parse_id(address.parts[1]);
      const std::string revision = id ? source_.revision(*id) : "";
      if (!revision.empty()) return kept(address, json, revision);
    }
    if (address.parts.empty() || address.parts[0] == "queue" || address.parts[0] == "tables")
      return kept(address, json, "");
    return formed(address, json, {});
  }

 private:
  using Found = std::optional<Reply>;

  Reply kept(const Address& address, bool json, const std::string& revision) {
    // No part of an address contains a line break.
    std::string key = fmt::format("{} {}", json ? "json" : "html", address.parts.size());
    for (const std::string& part : address.parts) key += "\n" + part;
    for (const auto& [name, value] : address.query) key += "\n" + name + "\n" + value;
    return *kept_.get(key, revision, [&] {
      Reply reply = formed(address, json, {});
      if (reply.status == 200) reply.etag = etag_of(reply.body);
      return reply;
    });
  }

  Reply formed(const Address& address, bool json, const Viewer& viewer) {
    Problem problem{404,
                    "There is no such page. The addresses of all pages are linked from the leaderboard."};
    const std::optional<Reply> found = find(address, json, viewer, problem);
    return found ? *found : problem_reply(problem, json);
  }

  Found find(const Address& a, bool json, const Viewer& viewer, Problem& problem) {
    const auto& p = a.parts;
    if (p.empty())
      return json ? json_reply(to_json(source_.front())) : html_reply(front_page(site_, source_.front()));
    if (p.size() == 1 && !a.json) {
      if (p[0] == "style.css") return Reply{200, "text/css; charset=utf-8", style_sheet()};
      if (p[0] == "board.js") return Reply{200, "text/javascript; charset=utf-8", kScript};
      if (p[0] == "icon.svg") return Reply{200, "image/svg+xml", kIcon};
      if (p[0] == "submit")
        return json ? json_reply({{"most_bytes", most_bytes_}}) : html_reply(upload_page(site_, most_bytes_));
    }
    if (p.size() == 1 && p[0] == "queue") return queue(a, json, problem);
    if (p.size() == 2 && p[0] == "submissions") return submission(p[1], json, viewer, problem);
    if (p.size() == 2 && p[0] == "jobs") return job(p[1], json, viewer, problem);
    if (p.size() >= 4 && p.size() <= 6 && p[0] == "tables") return table(a, json, problem);
    return {};
  }

  // The page of a list that the query names; the whole list for JSON without such a query.
  std::optional<Slice> slice(const Address& a, size_t total, bool json, Problem& problem) const {
    const auto asked = a.query.find("page");
    if (asked == a.query.end() && json) return Slice{1, 1, 0, total};
    const auto number = asked == a.query.end() ? std::optional<int64_t>(1) : parse_id(asked->second);
    if (!number) {
      problem = {400, "page must be a whole number from 1 on."};
      return {};
    }
    const auto out = slice_of(total, static_cast<size_t>(*number), kRowsPerPage);
    if (!out)
      problem = {404, fmt::format("The list has {} pages; there is no page {}.",
                                  slice_of(total, 1, kRowsPerPage)->pages, *number)};
    return out;
  }

  Found queue(const Address& a, bool json, Problem& problem) {
    const std::vector<Job> jobs = source_.queue();
    const auto s = slice(a, jobs.size(), json, problem);
    if (!s) return {};
    if (!json) return html_reply(queue_page(site_, jobs, *s));
    const auto first = jobs.begin() + static_cast<std::ptrdiff_t>(s->first);
    const std::vector<Job> shown(first, first + static_cast<std::ptrdiff_t>(s->count));
    return json_reply({{"jobs", to_json(shown)}, {"page", s->page}, {"pages", s->pages}});
  }

  Found submission(const std::string& number, bool json, const Viewer& viewer, Problem& problem) {
    const auto id = parse_id(number);
    const auto found = id ? source_.submission(*id, viewer) : std::nullopt;
    if (!found) return problem.reason = "There is no such submission.", std::nullopt;
    return json ? json_reply(to_json(*found)) : html_reply(submission_page(site_, *found));
  }

  Found job(const std::string& number, bool json, const Viewer& viewer, Problem& problem) {
    const auto id = parse_id(number);
    const auto found = id ? source_.job(*id, viewer) : std::nullopt;
    if (!found) return problem.reason = "There is no such job.", std::nullopt;
    return json ? json_reply(to_json(*found)) : html_reply(job_page(site_, *found));
  }

  Found table(const Address& a, bool json, Problem& problem) {
    TableKey key{a.parts[1], a.parts[2], a.parts[3]};
    std::vector<std::string> rest(a.parts.begin() + 4, a.parts.end());
    if (!rest.empty() && (rest[0] == "T1" || rest[0] == "T2")) key.tier = rest[0], rest.erase(rest.begin());
    const std::string view = rest.empty() ? "" : rest[0];
    if (rest.size() > 1 || (!rest.empty() && view != "pareto" && view != "history")) return {};
    std::optional<Table> found = source_.table(key);
    if (!found) return problem.reason = "There is no such table.", std::nullopt;
    if (view == "history") {
      const auto history = source_.history(key);
      return json ? json_reply({{"key", to_json(key)}, {"history", to_json(history)}})
                  : html_reply(history_page(site_, *found, history));
    }
    if (view == "pareto" && found->kernels) return {};
    if (view == "pareto") {
      if (!json) return html_reply(pareto_page(site_, *found));
      std::erase_if(found->rows, [](const Row& r) { return !r.on_front; });
      return json_reply(to_json(*found));
    }
    const auto s = slice(a, found->rows.size(), json, problem);
    if (!s) return {};
    if (!json) return html_reply(table_page(site_, *found, *s));
    const auto first = found->rows.begin() + static_cast<std::ptrdiff_t>(s->first);
    found->rows = std::vector<Row>(first, first + static_cast<std::ptrdiff_t>(s->count));
    Json document = to_json(*found);
    document["page"] = s->page, document["pages"] = s->pages;
    return json_reply(document);
  }

  Source& source_;
  int64_t most_bytes_;
  Site site_;
  PageCache<Reply> kept_;
};

}  // namespace tinymlperf::board
