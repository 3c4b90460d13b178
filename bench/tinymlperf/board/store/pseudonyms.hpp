// Pseudonyms: the names under which everybody sees the users of a board, if its instructor wants that.
//
// Every user has a pseudonym from the beginning, two random words or what the roster says. While pseudonyms
// are on, Mask replaces names in all that a board shows, except to instructors and to whoever has the board's
// file. Sources, notes and licences are not shown meanwhile (settings.hpp), since authors sign them in ways
// that no search finds.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tinymlperf/board/store/database.hpp>
#include <tinymlperf/board/store/settings.hpp>
#include <tinymlperf/board/store/source.hpp>
#include <tinymlperf/board/store/users.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::board {

class Mask {
 public:
  Mask(Database& db, const Viewer& viewer) : db_(db) {
    on_ = !viewer.has_file && Settings(db).has_pseudonyms() &&
          !(viewer.user && Users(db).is_instructor(*viewer.user));
    if (!on_) return;
    for (Rows r = db.query("SELECT name, pseudonym FROM users LEFT JOIN pseudonyms ON user = id"); r.next();)
      add(r.text(0), shown(r.text(1)), true);
    for (Rows r = db.query("SELECT DISTINCT manifest ->> '$.author', pseudonym FROM bundles b "
                           "LEFT JOIN pseudonyms p ON p.user = b.user");
         r.next();)
      add(r.text(0), shown(r.text(1)), false);
    for (auto* all : {&names_, &words_})
      for (auto& [word, names] : *all)  // the longest name first
        std::ranges::stable_sort(
            names, [](const Name& a, const Name& b) { return a.words.size() > b.words.size(); });
  }
  bool on() const { return on_; }

  // The owner of a submission.
  std::string owner(int64_t submission) {
    return shown(
        db_.text("SELECT pseudonym FROM pseudonyms p JOIN bundles b ON b.user = p.user WHERE b.id = ?",
                 submission)
            .value_or(""));
  }
  // Any text, with pseudonyms in the place of whole names of users and authors.
  std::string text(const std::string& text) const { return on_ ? replaced(text, names_) : text; }
  // The name of an entry or of a file, with pseudonyms in the place of each word of a user's name, too.
  std::string entry(const std::string& name) const { return on_ ? replaced(text(name), words_) : name; }

 private:
  struct Name {
    std::vector<std::string> words;
    std::string pseudonym;
  };
  using Names = std::map<std::string, std::vector<Name>>;  // by their first word
  static constexpr size_t kShortestWord = 3;

  static std::string shown(const std::string& pseudonym) {
    return pseudonym.empty() ? "somebody" : pseudonym;
  }
  static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           static_cast<unsigned char>(c) >= 128;
  }
  static char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
  // The next word at or after `at`, which moves to its beginning; empty at the end.
  static std::string next_word(std::string_view text, size_t& at) {
    while (at < text.size() && !in_word(text[at])) ++at;
    std::string out;
    for (size_t i = at; i < text.size() && in_word(text[i]); ++i) out += lower(text[i]);
    return out;
  }
  void add(const std::string& name, const std::string& pseudonym, bool is_user) {
    Name all{{}, pseudonym};
    for (size_t at = 0;;) {
      const std::string word = next_word(name, at);
      if (word.empty()) break;
      at += word.size();
      all.words.push_back(word);
      if (is_user && word.size() >= kShortestWord) words_[word].push_back({{word}, pseudonym});
    }
    if (!all.words.empty()) names_[all.words.front()].push_back(std::move(all));
  }

  // Returns the end of the name if it begins at `at`, else nullopt. Between its words are at most three other
  // characters.
  static std::optional<size_t> end_of(std::string_view text, size_t at, const Name& name) {
    constexpr size_t kApart = 3;
    size_t end = at;
    for (size_t i = 0; i < name.words.size(); ++i) {
      size_t begin = end;
      if (next_word(text, begin) != name.words[i] || begin - end > kApart) return std::nullopt;
      end = begin + name.words[i].size();
    }
    return end;
  }
  static std::string replaced(std::string_view text, const Names& names) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      size_t begin = at;
      const std::string word = next_word(text, begin);
      out += text.substr(at, begin - at);
      at = begin + word.size();
      const auto known = names.find(word);
      const Name* found = nullptr;
      if (!word.empty() && known != names.end())
        for (const Name& name : known->second)
          if (const auto end = end_of(text, begin, name); end && !found) found = &name, at = *end;
      out += found ? std::string_view(found->pseudonym) : text.substr(begin, word.size());
    }
    return out;
  }

  Database& db_;
  bool on_ = false;
  Names names_, words_;
};

// ---- views, with every text in which a name may stand

inline void mask(const Mask& m, Job& j) { j.name = m.entry(j.name), j.message = m.entry(j.message); }

inline void mask(const Mask& m, Run& r) {
  r.baseline = m.entry(r.baseline);
  for (std::string* text : {&r.out, &r.load}) *text = m.text(*text);
  for (Audit& a : r.audits) a.detail = a.id == "C1" ? m.entry(a.detail) : m.text(a.detail);
  for (OpRow& op : r.ops) op.reason = m.text(op.reason);
  for (Review& review : r.reviews) review.reason = m.text(review.reason);
  for (auto& [name, value] : r.system) value = m.text(value);
  if (r.appeal) r.appeal->note = m.text(r.appeal->note), r.appeal->answer = m.text(r.appeal->answer);
}

inline void mask(Mask& m, Row& r) {
  if (!m.on()) return;
  r.name = m.entry(r.name), r.not_ranked = m.text(r.not_ranked), r.author = m.owner(r.submission);
  r.team.clear(), r.note.clear();
}

inline void mask(Mask& m, Submission& s) {
  if (!m.on()) return;
  s.name = m.entry(s.name), s.author = m.owner(s.id);
  s.team.clear(), s.note.clear(), s.licence.clear(), s.similarities.clear();
  for (auto& [metric, value] : s.claims) metric = m.text(metric);
  for (File& f : s.files) f.path = m.entry(f.path);
  for (std::string& reason : s.reasons) reason = m.entry(reason);
  for (Run& r : s.runs) mask(m, r);
  for (Job& j : s.jobs) mask(m, j);
  if (s.hiding) s.hiding->reason = m.text(s.hiding->reason);
}

}  // namespace tinymlperf::board
