// Who takes part: finds entry folders, admits each on its own, and keeps the reason for every one that may
// not.
//
// A path given to --entries is an entry if it holds a model.json, else a folder of entries. Nothing that one
// entry does wrong (bad file, name already taken, an exception while it runs) reaches the others.
#pragma once

#include <algorithm>
#include <exception>
#include <filesystem>
#include <set>
#include <string>
#include <tinymlperf/entries/entry.hpp>
#include <tinymlperf/race/race.hpp>
#include <vector>

namespace tinymlperf {

// The entries below the given paths, each folder's in alphabetical order; what is no folder at all is
// refused.
inline std::vector<std::filesystem::path> find_entries(const std::vector<std::filesystem::path>& given,
                                                       std::vector<RefusedEntry>& refused) {
  namespace fs = std::filesystem;
  std::vector<fs::path> found;
  for (const fs::path& path : given) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      refused.push_back({path.string(), "expected a folder with model.json and weights.safetensors, found " +
                                            std::string(fs::exists(path, error) ? "a file" : "nothing")});
      continue;
    }
    std::vector<fs::path> inside;
    if (fs::exists(path / "model.json", error)) {
      found.push_back(path);
      continue;
    }
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      if (it->is_directory(error)) inside.push_back(it->path());
    if (inside.empty())
      refused.push_back({path.string(), "model.json: expected a file, found no such file in the entry"});
    std::sort(inside.begin(), inside.end());
    found.insert(found.end(), inside.begin(), inside.end());
  }
  return found;
}

// An exception's text on one line, without the caller's place and the advice for programmers that follow it.
inline std::string reason_of(const std::exception& error) {
  std::string text = error.what();
  for (const char* tail : {"\n  at ", "\n  hint: "}) text = text.substr(0, text.find(tail));
  std::string out;
  for (const char c : text) {
    if (c == '\n') out += ';';
    if (c != '\n' && (c != ' ' || (!out.empty() && out.back() != ' '))) out += c;
  }
  return out;
}

// Calls `admit(folder)` for each entry; it returns the contestant or throws. `name_of` reads a contestant's
// name.
template <class Contestant, class Admit, class NameOf>
std::vector<Contestant> admit_all(const std::vector<std::filesystem::path>& folders, Admit&& admit,
                                  NameOf&& name_of, std::vector<RefusedEntry>& refused) {
  std::vector<Contestant> contestants;
  std::set<std::string> names;
  for (const auto& folder : folders) {
    try {
      Contestant c = admit(folder);
      if (!names.insert(name_of(c)).second)
        throw Refusal("model.json", "name", "a name that no earlier entry has", name_of(c));
      contestants.push_back(std::move(c));
    } catch (const std::bad_alloc&) {
      refused.push_back({folder.string(), "the entry needs more memory than this machine gives"});
    } catch (const std::exception& e) {
      refused.push_back({folder.string(), reason_of(e)});
    }
  }
  return contestants;
}

}  // namespace tinymlperf
