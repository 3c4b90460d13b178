// Reads (as untrusted files) and writes the folder of an entry: model.json and weights.safetensors, or
// packed.safetensors (packed_model.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinymlperf/entries/network.hpp>
#include <tinymlperf/entries/packed_model.hpp>
#include <tinytorch/io/file.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <utility>

namespace tinymlperf {

constexpr const char* kModelFile = "model.json";
constexpr const char* kWeightsFile = "weights.safetensors";
constexpr const char* kPluginFile = "plugin.cpp";  // instead of the other two

// The last part of a path: "b" for "a/b", for "a/b/", and for "." in the folder a/b. It is the name of a
// contender without a model.json.
inline std::string folder_name(const std::filesystem::path& folder) {
  return std::filesystem::absolute(folder / "").lexically_normal().parent_path().filename().string();
}

struct Entry {
  Network network;
  int64_t file_bytes = 0;  // of the weights
};

// The file with the weights of an entry. Throws Refusal for both: floats beside packed weights would be a
// second model.
inline const char* weights_file_of(const std::filesystem::path& folder) {
  const bool packed = std::filesystem::exists(folder / kPackedFile);
  if (packed && std::filesystem::exists(folder / kWeightsFile))
    throw Refusal(kWeightsFile, "", std::string("either float weights or ") + kPackedFile, "both");
  return packed ? kPackedFile : kWeightsFile;
}

namespace detail {

struct EntryFiles {
  EntrySpec spec;
  tt::StateDict weights;
};
inline EntryFiles read_entry(const std::filesystem::path& folder, const Task& task) {
  EntrySpec spec = parse_entry(read_limited(folder / kModelFile, limits::kJsonBytes), task);
  const auto weights = folder / kWeightsFile;
  require_size(weights, limits::kWeightBytes);
  tt::StateDict state = check_weights(spec, kWeightsFile, tt::load_safetensors(weights.string()));
  return {std::move(spec), std::move(state)};
}

}  // namespace detail

// Throws Refusal, or tinytorch::Error if the weights file is damaged.
inline Entry load_entry(const std::filesystem::path& folder, const Task& task = task_of(kDigitsBenchmark)) {
  if (weights_file_of(folder) == std::string_view(kPackedFile)) {
    EntrySpec spec = parse_entry(detail::read_limited(folder / kModelFile, limits::kJsonBytes), task);
    const int64_t size = detail::require_size(folder / kPackedFile, limits::kWeightBytes);
    auto layers = std::dynamic_pointer_cast<tt::Sequential>(load_packed_model(folder, spec));
    return {Network(std::move(spec), std::move(layers)), size};
  }
  auto [spec, weights] = detail::read_entry(folder, task);
  const int64_t bytes = detail::require_size(folder / kWeightsFile, limits::kWeightBytes);
  return {Network(std::move(spec), weights), bytes};
}

// Writes the model.json of an entry that is to be trained, atomically. Creates the folder.
inline void save_recipe(const std::filesystem::path& folder, const EntrySpec& spec) {
  std::filesystem::create_directories(folder);
  tt::write_file((folder / kModelFile).string(), to_json(spec).dump(1) + "\n");
}

// Writes both files of an entry. Creates the folder. Each file is written atomically.
inline void save_entry(const std::filesystem::path& folder, const EntrySpec& spec,
                       const tt::StateDict& state) {
  std::filesystem::create_directories(folder);
  tt::save_safetensors((folder / kWeightsFile).string(), state);
  tt::write_file((folder / kModelFile).string(), to_json(spec).dump(1) + "\n");
}

}  // namespace tinymlperf
