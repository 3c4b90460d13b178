// The compiled sources of a plan: a NAME.cu.cubin for each, and kernels.json with the symbols of the kernels.
#pragma once

#include <fstream>
#include <tinymlperf/device/nvrtc.hpp>
#include <tinymlperf/device/plan.hpp>
#include <tinytorch/io/file.hpp>

namespace tinymlperf::device {

namespace limits {
constexpr int64_t kSourceBytes = 4 << 20, kCodeBytes = 256 << 20;
}

struct CompiledPlan {
  LaunchPlan plan;
  std::map<std::string, MachineCode> sources;  // by the name of the source file

  const std::string& symbol(const std::string& source, const std::string& kernel) const {
    return sources.at(source).symbols.at(kernel);
  }
};

namespace detail {

inline std::map<std::string, std::set<std::string>> kernels_by_source(const LaunchPlan& plan) {
  std::map<std::string, std::set<std::string>> out;
  for (const auto& [name, op] : plan)
    for (const Launch& launch : op.launches) out[op.source].insert(launch.kernel);
  return out;
}

inline bool is_device_header(const std::filesystem::path& path) {
  const std::string kind = path.extension().string();
  return kind == ".cuh" || kind == ".hpp" || kind == ".h";
}

}  // namespace detail

// Compiles the plan and the sources in `folder` for `architecture`, and writes the results to `out`.
inline void compile_plan(const std::filesystem::path& folder, const std::string& architecture,
                         const std::filesystem::path& out) {
  using tinymlperf::detail::read_limited;
  const LaunchPlan plan = load_plan(folder);
  std::vector<SourceFile> headers;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.is_regular_file() && detail::is_device_header(file.path()))
      headers.push_back({file.path().filename().string(), read_limited(file.path(), limits::kSourceBytes)});
  Json symbols = Json::object();
  for (const auto& [source, kernels] : detail::kernels_by_source(plan)) {
    const MachineCode code = compile({source, read_limited(folder / source, limits::kSourceBytes)}, headers,
                                     kernels, architecture);
    tinytorch::write_file((out / (source + ".cubin")).string(), code.cubin);
    symbols[source] = code.symbols;
  }
  tinytorch::write_file((out / kSymbolsFile).string(), symbols.dump(1) + "\n");
}

inline CompiledPlan load_compiled_plan(const std::filesystem::path& folder) {
  using tinymlperf::detail::read_limited;
  CompiledPlan out{load_plan(folder), {}};
  const Json symbols = Json::parse(read_limited(folder / kSymbolsFile, limits::kSourceBytes));
  for (const auto& [source, kernels] : symbols.items())
    out.sources[source] = {read_limited(folder / (source + ".cubin"), limits::kCodeBytes),
                           kernels.get<std::map<std::string, std::string>>()};
  return out;
}

}  // namespace tinymlperf::device
