// Times loading a model of Hugging Face's format: seconds, and the highest memory of the process compared
// with the model's and the files' sizes.
//
//     bench_load --make FOLDER --shape gpt2      writes a random model of 124 M parameters (or llama, qwen3)
//     bench_load FOLDER                          loads it once: the peak of a process is of one load
//
// The first load after the files were written or read finds them in the system's page cache.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <common/guarded.hpp>
#include <filesystem>
#include <tinytorch/transformer/hugging_face.hpp>

namespace tt = tinytorch;

namespace {

void make(const std::string& folder, const std::string& shape, tt::DType dtype) {
  if (shape == "gpt2") {
    tt::Gpt2 model{tt::Gpt2Config{}};
    model.to(dtype);
    return tt::save_hugging_face(model, folder);
  }
  tt::DecoderConfig c;
  static_cast<tt::LlamaConfig&>(c) = {.vocabulary = 32000,
                                      .context = 2048,
                                      .features = 768,
                                      .layers = 12,
                                      .heads = 12,
                                      .groups = 4,
                                      .hidden = 2560};
  c.family = shape, c.head_norms = shape == "qwen3";
  tt::Decoder model(c);
  model.to(dtype);
  tt::save_hugging_face(model, folder);
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 * 1e-6;
}
double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void load(const std::string& folder, tt::DType dtype) {
  double files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") files += static_cast<double>(entry.file_size()) * 1e-6;
  const double before = peak_megabytes(), processor = processor_seconds();
  const auto start = std::chrono::steady_clock::now();
  const auto model = tt::load_language_model(folder, {.dtype = dtype});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double used = peak_megabytes() - before;
  std::printf(
      "%.1f M parameters, files %.0f MB: %.3f s (processor %.3f s), %.0f MB of memory, %.2f of the files\n",
      static_cast<double>(model->parameter_count()) * 1e-6, files, seconds.count(),
      processor_seconds() - processor, used, used / files);
}

int run(int argc, char** argv) {
  CLI::App app{"Times loading a model"};
  std::string folder, shape = "gpt2", dtype = "f32";
  bool makes = false;
  app.add_option("folder", folder, "folder of the model")->required();
  app.add_flag("--make", makes, "write a random model into the folder instead");
  app.add_option("--shape", shape)->check(CLI::IsMember({"gpt2", "llama", "qwen3"}));
  app.add_option("--dtype", dtype, "of the written file, or of the loaded model")
      ->check(CLI::IsMember({"f32", "bf16"}));
  CLI11_PARSE(app, argc, argv);
  const tt::DType kind = dtype == "bf16" ? tt::bf16 : tt::f32;
  if (makes)
    make(folder, shape, kind);
  else
    load(folder, kind);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_load", [&] { return run(argc, argv); });
}
