// Audit C1: static rules that find lines of source which a person should look at, with the reason. A reason
// is not a verdict: honest source may have some, the sandbox protects against any source, and the other
// audits decide.
//
// Lines that continue after a backslash are joined, as by a compiler. Lines of // comments are skipped. Lines
// of block comments are not, since text that looks like a comment need not be one. Names that a macro joins
// are found in the preprocessor's output (hidden_reasons). For device code this output comes from a compiler
// for the host, since NVRTC has none, and covers one branch of each #if only; but a use of ## is found in the
// text itself, in all branches.
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
  std::vector<std::string_view> words;    // found as whole identifiers
  std::vector<std::string_view> phrases;  // found anywhere in a line
};

inline const auto& static_rules() {
  static const std::array rules{
      StaticRule{"starts other programs",
                 {"fork", "vfork", "execve", "execl", "execvp", "popen", "system", "posix_spawn", "clone"},
                 {}},
      StaticRule{"starts threads, which could continue after an answer",
                 {"thread", "jthread", "pthread_create", "async"},
                 {}},
      StaticRule{"reads a clock, which only the judge needs",
                 {"chrono", "clock", "clock_gettime", "gettimeofday", "rdtsc", "__rdtsc", "times", "clock64",
                  "globaltimer"},
                 {}},
      StaticRule{"inspects the environment in which it runs",
                 {"getenv", "setenv", "environ", "getpid", "sysconf"},
                 {"/proc/", "/sys/", "/dev/"}},
      StaticRule{"opens files", {"fopen", "ifstream", "ofstream", "fstream", "open", "openat"}, {}},
      StaticRule{"uses the network", {"socket", "connect", "sockaddr", "getaddrinfo"}, {}},
      StaticRule{"loads or generates code", {"dlopen", "dlsym", "mprotect", "memfd_create", "PROT_EXEC"}, {}},
      StaticRule{"contains assembly code", {"asm", "__asm__", "__asm"}, {}},
      StaticRule{
          "accesses the memory of another process", {"ptrace", "process_vm_readv", "process_vm_writev"}, {}},
      StaticRule{"may cache answers", {"cache", "memo", "unordered_map"}, {}},
      StaticRule{"joins names with ##, which hides them from a reader", {}, {"##", "%:%:"}},
      StaticRule{"includes a file from outside of the submission",
                 {},
                 {"#include \"/", "#include </", "#include \"..", "#embed"}}};
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

// Joins each line with those that continue it after a backslash, so that a backslash hides no name. Empty
// lines take the place of the continuations, which keeps the line numbers.
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

// True if the whole line is a // comment. A line with a quote or with */ is not one, since it may end a
// string or a block comment that began in an earlier line, with code after that.
inline bool is_comment(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  return first != line.npos && line.substr(first).starts_with("//") && line.find('"') == line.npos &&
         line.find("*/") == line.npos;
}

// True for #line and for # 12 "another.hpp", which give the following lines other numbers and another file.
inline bool renumbers(std::string_view line) {
  const size_t mark = line.find_first_not_of(" \t");
  if (mark == line.npos || line[mark] != '#') return false;
  const size_t word = line.find_first_not_of(" \t", mark + 1);
  return word != line.npos &&
         (std::isdigit(static_cast<unsigned char>(line[word])) || line.substr(word).starts_with("line"));
}

// The number of numeric literals: many of them may be weights or answers.
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

// Appends "plugin.cpp:12: reads a clock ... (3 lines)" to `out` if found(line) is true for a line.
template <class Found>
void note(std::vector<std::string>& out, const std::string& path, const std::vector<std::string_view>& lines,
          const std::string& what, Found&& found) {
  const auto first = std::ranges::find_if(lines, found);
  if (first == lines.end()) return;
  const auto all = std::ranges::count_if(lines, found);
  out.push_back(fmt::format("{}:{}: {}{}", path, first - lines.begin() + 1, what,
                            all > 1 ? fmt::format(" ({} lines)", all) : ""));
}

// The library's headers and qualified names in a line.
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

// Appends "plugin.cpp:7: uses the library: cpu::softmax" to `out`. In tier T2 this is allowed, but the result
// is then the library's work, which its readers should know.
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
  out.push_back(fmt::format("{}:{}: uses the library: {}", path, first, list));
}

}  // namespace detail

// The reasons to look at a source file, one for each rule that applies.
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
  detail::note(out, path, lines, "changes line numbers with #line, which hides where code is",
               detail::renumbers);
  detail::note(out, path, detail::lines_of(text), "has a line that is too long to be read",
               [](std::string_view line) { return line.size() > kLongLine; });
  if (const int64_t literals = detail::literals_in(text); literals > kManyLiterals)
    out.push_back(
        fmt::format("{}: contains {} numeric literals, which may be weights or answers", path, literals));
  return out;
}

// The lines of `file` in the output of `c++ -E`, each at its line number in that file.
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

// The reasons that apply to the preprocessed lines of a file but not to its text.
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
