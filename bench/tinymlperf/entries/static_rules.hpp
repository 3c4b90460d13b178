// C1: what in source somebody should look at, and why. Reasons, not verdicts: an honest one may have
// them, the sandbox holds whatever the source says, and the audits decide. Comments count as well, since what
// looks like one need not be one. Lines that go on after a backslash are read as one, as a compiler does.
// What a macro makes of names shows only in what the preprocessor gives, which is looked at too, of device
// code by a compiler for the host, since NVRTC gives no such text: it takes one branch of each #if. That
// names are joined at all the text itself says, in all of them.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace tinymlperf::bundle {

namespace detail {

struct StaticRule {
  const char* what;
  std::vector<std::string_view> words;    // whole identifiers
  std::vector<std::string_view> phrases;  // anywhere in a line
};

inline const auto& static_rules() {
  static const std::array rules{
      StaticRule{"starts other programs",
                 {"fork", "vfork", "execve", "execl", "execvp", "popen", "system", "posix_spawn", "clone"},
                 {}},
      StaticRule{"works in threads, which could go on after an answer",
                 {"thread", "jthread", "pthread_create", "async"},
                 {}},
      StaticRule{"reads a clock; nobody but the judge needs one",
                 {"chrono", "clock", "clock_gettime", "gettimeofday", "rdtsc", "__rdtsc", "times", "clock64",
                  "globaltimer"},
                 {}},
      StaticRule{"looks at where it runs",
                 {"getenv", "setenv", "environ", "getpid", "sysconf"},
                 {"/proc/", "/sys/", "/dev/"}},
      StaticRule{"opens files", {"fopen", "ifstream", "ofstream", "fstream", "open", "openat"}, {}},
      StaticRule{"speaks to a network", {"socket", "connect", "sockaddr", "getaddrinfo"}, {}},
      StaticRule{"loads or makes code", {"dlopen", "dlsym", "mprotect", "memfd_create", "PROT_EXEC"}, {}},
      StaticRule{"holds machine code", {"asm", "__asm__", "__asm"}, {}},
      StaticRule{"reads or writes another's memory", {"ptrace", "process_vm_readv", "process_vm_writev"}, {}},
      StaticRule{"may keep answers", {"cache", "memo", "unordered_map"}, {}},
      StaticRule{"joins names, which hides them from a reader", {}, {"##", "%:%:"}},
      StaticRule{
          "takes in a file from elsewhere", {}, {"#include \"/", "#include </", "#include \"..", "#embed"}}};
  return rules;
}

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

inline bool has_word(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(line[at - 1])) && (end == line.size() || !is_word(line[end]))) return true;
  }
  return false;
}

inline bool applies(const StaticRule& rule, std::string_view line) {
  return std::ranges::any_of(rule.words, [&](std::string_view w) { return has_word(line, w); }) ||
         std::ranges::any_of(rule.phrases, [&](std::string_view p) { return line.find(p) != line.npos; });
}

inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Each line with those that it goes on with after a backslash, so that no name is hidden by one; these are
// empty then.
inline std::string spliced(std::string_view text) {
  std::string out;
  size_t owed = 0;  // ends of lines
  for (std::string_view line : lines_of(text)) {
    const size_t last = line.find_last_not_of(" \t\r");
    if (last != line.npos && line[last] == '\\') {
      out += line.substr(0, last);
      ++owed;
      continue;
    }
    out += line;
    out.append(owed + 1, '\n');
    owed = 0;
  }
  return out + std::string(owed, '\n');
}

// A line that is a comment from its first character. One with a quote or the end of another comment may close
// what began lines before it, and run after that.
inline bool is_comment(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  return first != line.npos && line.substr(first).starts_with("//") && line.find('"') == line.npos &&
         line.find("*/") == line.npos;
}

// #line, or # 12 "another.hpp": what follows is said to be from elsewhere.
inline bool renumbers(std::string_view line) {
  const size_t mark = line.find_first_not_of(" \t");
  if (mark == line.npos || line[mark] != '#') return false;
  const size_t word = line.find_first_not_of(" \t", mark + 1);
  return word != line.npos &&
         (std::isdigit(static_cast<unsigned char>(line[word])) || line.substr(word).starts_with("line"));
}

// Numbers that are written out: many of them may be weights, or answers.
inline int64_t literals_in(std::string_view text) {
  int64_t count = 0;
  for (size_t i = 0; i < text.size(); ++i)
    count += std::isdigit(static_cast<unsigned char>(text[i])) &&
             (i == 0 || !(is_word(text[i - 1]) || text[i - 1] == '.'));
  return count;
}

}  // namespace detail

inline bool is_source_path(std::string_view path) {
  for (const char* end : {".cpp", ".hpp", ".h", ".cu", ".cuh"})
    if (path.ends_with(end)) return true;
  return false;
}

namespace detail {

inline bool applies_to(const StaticRule& rule, std::string_view line) {
  return !is_comment(line) && applies(rule, line);
}

// "plugin.cpp:12: reads a clock ... (3 lines)" into `out`, where a line is found.
template <class Found>
void note(std::vector<std::string>& out, const std::string& path, const std::vector<std::string_view>& lines,
          const std::string& what, Found&& found) {
  const auto first = std::ranges::find_if(lines, found);
  if (first == lines.end()) return;
  const auto all = std::ranges::count_if(lines, found);
  out.push_back(fmt::format("{}:{}: {}{}", path, first - lines.begin() + 1, what,
                            all > 1 ? fmt::format(" ({} lines)", all) : ""));
}

// What a line takes from the library: headers, and names that say where they are from.
inline std::vector<std::string> library_names(std::string_view line) {
  std::vector<std::string> out;
  for (size_t at = 0; at < line.size();) {
    if (!is_word(line[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    const auto goes_on = [&](char c) { return is_word(c) || c == ':' || c == '/' || c == '.'; };
    while (end < line.size() && goes_on(line[end])) ++end;
    const std::string_view name = line.substr(at, end - at);
    for (const std::string_view root : {"tinytorch", "tt", "backend", "cpu", "library"}) {
      if (!name.starts_with(root)) continue;
      const std::string_view rest = name.substr(root.size());
      if (rest.starts_with("::") || rest.starts_with("/") || (root == "tinytorch" && rest.empty()))
        out.emplace_back(name);
    }
    at = end;
  }
  return out;
}

// "plugin.cpp:7: takes from the library: cpu::softmax". In tier T2 that is allowed: what answers is then the
// library's work, which whoever reads the result should know.
inline void note_library(std::vector<std::string>& out, const std::string& path,
                         const std::vector<std::string_view>& lines) {
  constexpr size_t kShown = 6;
  std::vector<std::string> names;
  size_t first = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (is_comment(lines[i])) continue;
    for (std::string& name : library_names(lines[i])) {
      if (names.empty()) first = i + 1;
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  if (names.empty()) return;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) list += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kShown) list += fmt::format(" and {} more", names.size() - kShown);
  out.push_back(fmt::format("{}:{}: takes from the library: {}", path, first, list));
}

}  // namespace detail

// One reason for each rule that applies to a source file.
inline std::vector<std::string> static_reasons(const std::string& path, std::string_view text) {
  constexpr int64_t kManyLiterals = 1000;
  constexpr size_t kLongLine = 1000;
  std::vector<std::string> out;
  if (!is_source_path(path)) return out;
  const std::string whole = detail::spliced(text);
  const std::vector<std::string_view> lines = detail::lines_of(whole);
  for (const detail::StaticRule& rule : detail::static_rules())
    detail::note(out, path, lines, rule.what,
                 [&](std::string_view line) { return detail::applies_to(rule, line); });
  detail::note_library(out, path, lines);
  detail::note(out, path, lines, "counts its lines as it likes, which hides what follows", detail::renumbers);
  detail::note(out, path, detail::lines_of(text), "is too long to be read",
               [](std::string_view line) { return line.size() > kLongLine; });
  if (const int64_t literals = detail::literals_in(text); literals > kManyLiterals)
    out.push_back(fmt::format("{}: holds {} numbers, which may be weights or answers", path, literals));
  return out;
}

// The lines of one file in what `c++ -E` gives, each at its own number.
inline std::string preprocessed_lines(std::string_view output, std::string_view file) {
  std::vector<std::string> lines;
  size_t number = 0;  // of the next line
  bool of_file = false;
  for (const std::string_view line : detail::lines_of(output)) {
    // # 12 "/folder/plugin.cpp" 2
    if (line.size() > 3 && line.starts_with("# ") && std::isdigit(static_cast<unsigned char>(line[2]))) {
      const size_t open = line.find('"'), close = line.rfind('"');
      number = static_cast<size_t>(std::strtoul(std::string(line.substr(2, 9)).c_str(), nullptr, 10));
      of_file = open != close && line.substr(open + 1, close - open - 1) == file;
      continue;
    }
    if (of_file && number > 0 && number < (1u << 20)) {
      lines.resize(std::max(lines.size(), number));
      lines[number - 1] += line;
    }
    ++number;
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

// What the text of a file does not show and its preprocessed lines do.
inline std::vector<std::string> hidden_reasons(const std::string& path, std::string_view text,
                                               std::string_view preprocessed) {
  std::vector<std::string> out;
  const std::string whole = detail::spliced(text);
  const auto lines = detail::lines_of(whole), after = detail::lines_of(preprocessed);
  for (const detail::StaticRule& rule : detail::static_rules()) {
    const auto found = [&](std::string_view line) { return detail::applies_to(rule, line); };
    if (std::ranges::none_of(lines, found))
      detail::note(out, path, after, std::string("after the preprocessor, ") + rule.what, found);
  }
  std::vector<std::string> shown;
  detail::note_library(shown, path, lines);
  if (shown.empty()) detail::note_library(out, path, after);
  return out;
}

}  // namespace tinymlperf::bundle
