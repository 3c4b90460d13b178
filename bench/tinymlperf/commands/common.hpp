// Helpers of the commands on bundles and boards: messages of failure, and the meaning of names on the command
// line. A command is a struct of options and a function that returns the exit status: 0 done, 1 refused, 2
// not possible as asked.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <tinymlperf/board/store/store.hpp>
#include <tinymlperf/board/web/remote.hpp>
#include <tinymlperf/bundle/compile.hpp>
#include <tinymlperf/bundle/rules.hpp>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/entries/packed_entry.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

namespace detail {

template <class F>
int guarded(std::FILE* out, F&& f) {
  try {
    return f();
  } catch (const Refusal& r) {
    fmt::print(out, "refused: {}\n", r.what());
    return kFailed;
  } catch (const board::RefusedByBoard& r) {
    fmt::print(out, "refused: {}\n", r.what());
    return kFailed;
  } catch (const std::exception& e) {
    return complain(e.what());
  }
}

// Prints a token alone on `out`, so that `> FILE` makes a token file, and says on `notes` what it is for.
inline void print_token(std::FILE* out, std::FILE* notes, const std::string& what, const std::string& token) {
  fmt::print(notes, "{}\n", what);
  fmt::print(out, "{}\n", token);
}

// The board must exist already: a wrong path must not create an empty one.
inline void require_board(const std::filesystem::path& board) {
  if (board::is_address(board.string()))
    throw std::invalid_argument(
        "--board " + board.string() +
        ": expected a file; submit, watch, head-to-head, appeal add, job and withdraw take an address too");
  if (!std::filesystem::exists(board))
    throw std::invalid_argument("--board " + board.string() +
                                ": there is no such file; `tinymlperf user add NAME --board FILE` makes one");
}

// The token of the user who asks: from the command line or the environment, unless a file is named. Then the
// file's first line is the token.
struct Token {
  std::string text;
  std::filesystem::path file;

  bool is_given() const { return !text.empty() || !file.empty(); }
  std::string read() const {
    std::string token = text;
    if (!file.empty()) {
      token = read_limited(file, 4096);
      token.resize(std::min(token.find_first_of("\r\n"), token.size()));
    }
    if (token.empty())
      throw std::invalid_argument(
          "who asks needs a token: give --token-file FILE, --token TOKEN or the variable TINYMLPERF_TOKEN");
    return token;
  }
};

inline std::string read_bundle_file(const std::filesystem::path& path) {
  return read_limited(path, bundle::ArchiveLimits{}.bytes);
}

// The manifest beside an entry, or one with the names from its model.json. An entry of code is named after
// its folder.
inline bundle::Manifest manifest_of_folder(const std::filesystem::path& folder) {
  const auto file = folder / bundle::kManifestFile;
  if (std::filesystem::exists(file)) return bundle::parse_manifest(read_limited(file, limits::kJsonBytes));
  bundle::Manifest m;
  const bool plan = std::filesystem::exists(folder / device::kPlanFile),
             plugin = std::filesystem::exists(folder / kPluginFile), headers = !header_set_of(folder).empty();
  if (plan || plugin || headers) m.tier = plan ? "T1" : "T2";
  if (plan || plugin || (headers && !std::filesystem::exists(folder / kModelFile))) {
    m.name = folder_name(folder);
    if (plan || !plugin)  // headers alone: the library's kernels on them
      m.division = kKernelDivision, m.benchmarks = {kKernelBenchmark}, m.scenarios = {"single_stream"};
    if (plan && tinytorch::backend::cuda::is_available()) m.hardware = hardware_class_of_device();
    return m;
  }
  const std::string model = read_limited(folder / kModelFile, limits::kJsonBytes);
  const EntrySpec spec = parse_entry(model, task_of(benchmark_of(model)));
  m.name = spec.name, m.author = spec.author, m.notes = spec.description;
  m.benchmarks = {spec.benchmark};
  if (std::filesystem::exists(folder / kQuantizerFile)) {
    const QuantizerSpec q = read_quantizer(folder, spec.benchmark);
    m.quantizer = q.method, m.calibration = q.calibration;
    m.weights = declared_weights(q), m.activations = q.activations == "int8" ? "i8" : "f32";
  }
  if (spec.training && !std::filesystem::exists(folder / kWeightsFile))
    m.benchmarks = {std::string(kTrainingPrefix) + spec.benchmark}, m.scenarios = {"time_to_quality"};
  return m;
}

// Runs check C2 if this machine can hold a compiler; otherwise says that it was not run. Throws Refusal.
inline void check_compiles(const bundle::Bundle& b, std::FILE* out) {
  if (b.manifest.tier == "T0") return;
  const auto untried = [&](const sandbox::Unavailable& e) {
    fmt::print(out, "C2, whether it compiles, was not tried: {}\n", e.what());
  };
  try {
    sandbox::Offers offers = sandbox::probe();
    sandbox::require(offers, sandbox::Level::basic);
    for (const std::string& reason : bundle::check_compiles(b, offers))
      fmt::print(out, "look at {}\n", reason);
    fmt::print(out, "C2: it compiles\n");
  } catch (const judge::WithoutGpu& e) {
    for (const std::string& reason : e.reasons) fmt::print(out, "look at {}\n", reason);
    untried(e);
  } catch (const sandbox::Unavailable& e) {
    untried(e);
  }
}

// A submission's number on the command line.
inline std::optional<int64_t> number_of(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

}  // namespace detail

}  // namespace tinymlperf
