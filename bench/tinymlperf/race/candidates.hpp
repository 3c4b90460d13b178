// Finds the candidates of a race: the entry folders at or below the given paths. Each path or entry that
// cannot take part is listed with its reason.
//
// A path is an entry if it holds a model.json or a plugin.cpp. Otherwise it is a folder of entries.
#pragma once

#include <algorithm>
#include <exception>
#include <filesystem>
#include <set>
#include <string>
#include <tinymlperf/entries/entry.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/race/race.hpp>
#include <tinymlperf/support/reason.hpp>
#include <vector>

namespace tinymlperf {

// Returns the entries in the order of the given paths, those of one folder in alphabetical order. Paths that
// are not folders, and folders without entries, are appended to `refused`.
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
    if (fs::exists(path / kModelFile, error) || fs::exists(path / kPluginFile, error)) {
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

// Reads name, author and description from model.json, and throws if that fails. A plugin without a model.json
// is named after its folder.
inline EntryInfo describe_entry(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / kModelFile) && std::filesystem::exists(folder / kPluginFile))
    return {folder_name(folder), "", "a plugin, which answers with its own code", 0};
  const EntrySpec spec = parse_entry(detail::read_limited(folder / kModelFile, limits::kJsonBytes));
  return {spec.name, spec.author, spec.description, spec.parameters};
}

// The entries of a race, each name once, the baseline first. All others are refused with their reason.
struct Starters {
  std::vector<std::filesystem::path> folders;
  std::vector<EntryInfo> entries;
  size_t students = 0;  // a student's program answers for so many entries at the end of the list
};
inline Starters starters(const std::vector<std::filesystem::path>& folders, const std::string& baseline,
                         std::vector<RefusedEntry>& refused) {
  Starters out;
  std::set<std::string> names;
  for (const auto& folder : folders) {
    try {
      const EntryInfo info = describe_entry(folder);
      if (!names.insert(info.name).second)
        throw Refusal("model.json", "name", "a name that no earlier entry has", info.name);
      const bool first = info.name == baseline;
      out.folders.insert(first ? out.folders.begin() : out.folders.end(), folder);
      out.entries.insert(first ? out.entries.begin() : out.entries.end(), info);
    } catch (const std::exception& e) {
      refused.push_back({folder.string(), reason_of(e.what())});
    }
  }
  return out;
}

// Appends the entries for which a student's program answers. They are named NAME-student.
inline void add_students(Starters& to, const std::vector<std::filesystem::path>& folders,
                         std::vector<RefusedEntry>& refused) {
  Starters students = starters(folders, "", refused);
  for (size_t i = 0; i < students.entries.size(); ++i) {
    EntryInfo& info = students.entries[i];
    info.name += "-student";
    const bool known = std::ranges::find(to.entries, info.name, &EntryInfo::name) != to.entries.end();
    if (known) {
      refused.push_back(
          {students.folders[i].string(), "another entry is called " + info.name + ": rename it"});
      continue;
    }
    to.folders.push_back(students.folders[i]), to.entries.push_back(info);
    ++to.students;
  }
}

}  // namespace tinymlperf
