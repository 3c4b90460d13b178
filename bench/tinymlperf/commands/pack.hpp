// `tinymlperf pack FOLDER` makes a bundle of an entry; `tinymlperf check` says whether a leaderboard would
// take it.
#pragma once

#include <algorithm>
#include <tinymlperf/commands/common.hpp>
#include <tinytorch/benchmarking/document.hpp>

namespace tinymlperf {

struct PackOptions {
  std::filesystem::path folder, out;  // out empty: NAME.tmlp
  // Empty fields are taken from the folder's manifest.json, or from its model.json.
  std::string author, team, division, hardware, notes, licence;
  std::vector<std::string> benchmarks, scenarios;
};

struct CheckOptions {
  std::filesystem::path path;  // a bundle, or a folder to become one
};

namespace detail {

inline bundle::Manifest manifest_for(const PackOptions& o) {
  bundle::Manifest m = manifest_of_folder(o.folder);
  const std::pair<const std::string*, std::string*> texts[] = {
      {&o.author, &m.author},     {&o.team, &m.team},   {&o.division, &m.division},
      {&o.hardware, &m.hardware}, {&o.notes, &m.notes}, {&o.licence, &m.licence}};
  for (const auto& [given, field] : texts)
    if (!given->empty()) *field = *given;
  if (!o.benchmarks.empty()) m.benchmarks = o.benchmarks;
  if (o.benchmarks == std::vector<std::string>{kKernelBenchmark}) {
    m.scenarios = {judge::name_of(judge::Scenario::single_stream)};
    if (o.division.empty()) m.division = kKernelDivision;
  }
  if (!o.benchmarks.empty() &&
      std::ranges::all_of(m.benchmarks, [](const auto& b) { return is_training(b); }))
    m.scenarios = {"time_to_quality"};
  if (!o.scenarios.empty()) m.scenarios = o.scenarios;
  return m;
}

}  // namespace detail

// A check of a folder of code needs no author and no licence, which only `pack` is given.
inline bundle::Manifest manifest_to_check(const std::filesystem::path& folder) {
  bundle::Manifest m = detail::manifest_of_folder(folder);
  if (m.tier != "T0" && m.author.empty()) m.author = "no author yet";
  if (m.tier == "T1" && !m.hardware.starts_with("gpu(")) m.hardware = "gpu(any)";
  return m;
}

inline int run_pack(const PackOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    const bundle::Manifest m = detail::manifest_for(o);
    const std::string bytes = bundle::pack(m, bundle::read_folder(o.folder));
    bundle::check_rules(bundle::read_bundle(bytes));
    const std::filesystem::path target = o.out.empty() ? std::filesystem::path(m.name + ".tmlp") : o.out;
    tinytorch::write_file(target.string(), std::string_view(bytes));
    fmt::print(out, "{}: {} by {}, {}, {}\nid {}\n", target.string(), m.name, m.author, m.division,
               tinytorch::document::show_bytes(bytes.size()), bundle::sha256(bytes));
    return kPass;
  });
}

inline int run_check(const CheckOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    const bool folder = std::filesystem::is_directory(o.path);
    const std::string bytes = folder ? bundle::pack(manifest_to_check(o.path), bundle::read_folder(o.path))
                                     : detail::read_bundle_file(o.path);
    const bundle::Bundle b = bundle::read_bundle(bytes);
    bundle::check_rules(b);
    const HeaderSet headers = bundle::header_set_of(b);
    for (const std::string& header : headers.names()) fmt::print(out, "replaces {}\n", header);
    for (const std::string& reason : bundle::reasons_to_look(b)) fmt::print(out, "look at {}\n", reason);
    detail::check_compiles(b, out);
    fmt::print(out, "{}: {} by {} can be submitted (tier {}, {}, {})\nid {}\n", o.path.string(),
               b.manifest.name, b.manifest.author, b.manifest.tier, b.manifest.division, b.manifest.hardware,
               b.id);
    return kPass;
  });
}

}  // namespace tinymlperf
