// The stage of a contender: a folder of its own with copies of all that it needs, which another user can
// reach. It is removed after the match.
//
//   T0   model.json and weights.safetensors, or model.json alone if it is to be trained: this program reads
//        them and answers (`tinymlperf worker`)
//   T1   plan.json and CUDA sources: compiled here, in the sandbox and without a GPU, by NVRTC; this program
//        launches them (`tinymlperf worker --device`)
//   T2   plugin.cpp and the headers beside it: compiled here, in the sandbox, against entries/plugin.hpp,
//        entries/kernels.hpp and the library. Headers in include/ replace the library's
//        (entries/header_set.hpp). Without a plugin.cpp the worker or the library's kernels are compiled on
//        them. A worker program of a student's build is T2, too
//
// The files are copied once, before the match, so later changes by the author have no effect.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tinymlperf/channel/session.hpp>
#include <tinymlperf/device/architecture.hpp>
#include <tinymlperf/device/plan.hpp>
#include <tinymlperf/entries/header_set.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/entries/quantizer_spec.hpp>
#include <tinymlperf/entries/static_rules.hpp>
#include <tinymlperf/support/temporary_folder.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tree/source_folder.hpp>
#include <vector>

namespace tinymlperf::judge {

namespace fs = std::filesystem;

// There is no GPU to compile device code for. `reasons` were found without one.
struct WithoutGpu : sandbox::Unavailable {
  using sandbox::Unavailable::Unavailable;
  std::vector<std::string> reasons = {};
};

class Stage {
 public:
  // Throws std::invalid_argument if the folder holds no contender or its plugin does not compile, and Refusal
  // for headers that replace nothing. `worker` is a program that answers for a model instead of this one.
  Stage(const std::filesystem::path& folder, const sandbox::Offers& offers, bool learns = false,
        const std::filesystem::path& worker = {})
      : Stage(offers) {
    const HeaderSet headers = header_set_of(folder);
    const bool plugin = fs::exists(folder / kPluginFile),
               packed = !learns && fs::exists(folder / kPackedFile),
               model =
                   fs::exists(folder / kModelFile) && (learns || packed || fs::exists(folder / kWeightsFile));
    replaced_ = headers.names();
    if (fs::exists(folder / device::kPlanFile)) {
      tier_ = "T1";
      if (!headers.empty())
        throw Refusal(kHeaderFolder, "", std::string("no such folder beside ") + device::kPlanFile, "one");
      copy(folder / device::kPlanFile, base_ / "entry" / device::kPlanFile, fs::perms(0644));
      copy_sources(folder, {".cu", ".cuh", ".hpp", ".h"});
      note_written();
      look_behind_device_macros();
      compile_plan();
    } else if (plugin || (!headers.empty() && !model)) {
      tier_ = "T2";
      copy_headers(folder);
      copy_sources(plugin ? folder : source() / "bench/tinymlperf/kernels/library", {".cpp", ".hpp", ".h"});
      note_written();
      compile_plugin();
    } else if (model) {
      copy(folder / kModelFile, base_ / "entry" / kModelFile, fs::perms(0644));
      if (!learns) {
        const char* const weights = weights_file_of(folder);
        copy(folder / weights, base_ / "entry" / weights, fs::perms(0644));
      }
      if (packed && fs::exists(folder / kQuantizerFile))
        copy(folder / kQuantizerFile, base_ / "entry" / kQuantizerFile, fs::perms(0644));
      command_ = {(base_ / "program").string(), "worker", (base_ / "entry").string()};
      if (!headers.empty() || !worker.empty()) tier_ = "T2";
      if (!headers.empty()) {
        copy_headers(folder);
        note_written();
        compile_worker();
      } else {
        copy(worker.empty() ? "/proc/self/exe" : worker, base_ / "program", fs::perms(0755));
        if (!worker.empty()) replaced_ = headers_of_worker();
      }
    } else {
      throw std::invalid_argument(folder.string() + ": expected a folder with " + kModelFile +
                                  (learns ? "" : std::string(" and ") + kWeightsFile) + ", with " +
                                  kPluginFile + ", or with " + device::kPlanFile);
    }
  }
  // The stage of the library's own kernels on the GPU.
  static std::unique_ptr<Stage> of_library_on_device(const sandbox::Offers& offers) {
    auto out = std::unique_ptr<Stage>(new Stage(offers));
    out->copy("/proc/self/exe", out->base_ / "program", fs::perms(0755));
    out->tier_ = "T1";
    out->command_ = {(out->base_ / "program").string(), "worker", device::kLibraryName, "--device"};
    return out;
  }
  const std::string& tier() const { return tier_; }
  // Reasons to look at its source, as it was written and after the preprocessor.
  const std::vector<std::string>& reasons() const { return reasons_; }
  // The library's headers that it replaces, for example tinytorch/tensor/strides.hpp.
  const std::vector<std::string>& replaced() const { return replaced_; }
  bool on_device() const { return tier_ == "T1"; }
  // The program that answers, and its arguments.
  const std::vector<std::string>& command() const { return command_; }

  // The session ends after so many seconds of elapsed time. `more`: further arguments of the command.
  std::unique_ptr<channel::Session> start(double seconds = 3600,
                                          const std::vector<std::string>& more = {}) const {
    sandbox::Policy policy = policy_for(seconds);
    policy.cpu_seconds = seconds * tinytorch::thread_count();
    policy.may_gpu = on_device();
    policy.real_time = offers_.real_time;
    policy.read_only.push_back(command_.front());
    policy.read_only.push_back(base_ / "entry");
    // The session has as many threads as the judge, because the hardware class depends on their number.
    policy.environment.push_back("OMP_NUM_THREADS=" + std::to_string(tinytorch::thread_count()));
    return std::make_unique<channel::Session>(with(more), policy, offers_);
  }

  // The packed weights that the judge's own program gets for an entry of data: from the float weights of
  // `baseline`, or, if it is empty, from the entry's own. Throws std::invalid_argument with the reason.
  std::string pack_again(const fs::path& baseline) const {
    constexpr double kSeconds = 300;
    const fs::path program = base_ / "packer", from = base_ / "baseline", made = base_ / "work" / kPackedFile;
    if (!fs::exists(program)) copy("/proc/self/exe", program, fs::perms(0755));
    std::vector<std::string> command{program.string(), "worker", (base_ / "entry").string(), "--repack"};
    if (!baseline.empty()) {
      fs::create_directories(from);
      for (const char* file : {kModelFile, kWeightsFile}) {
        if (!fs::exists(baseline / file))
          throw std::invalid_argument("the baseline has no " + std::string(file) +
                                      ", from which weights are packed");
        fs::copy_file(baseline / file, from / file, fs::copy_options::overwrite_existing);
        fs::permissions(from / file, fs::perms(0644));
      }
      command.back() = "--replay", command.push_back(from.string());
    }
    fs::remove(made);
    sandbox::Policy policy = policy_for(kSeconds);
    policy.cpu_seconds = kSeconds * tinytorch::thread_count();
    policy.read_only.push_back(program);
    policy.read_only.push_back(base_ / "entry");
    if (!baseline.empty()) policy.read_only.push_back(from);
    const sandbox::Outcome outcome = sandbox::run(command, policy, offers_);
    if (!outcome.good()) throw std::invalid_argument(outcome.err.empty() ? outcome.reason : outcome.err);
    std::string bytes = tinymlperf::detail::read_limited(made, limits::kWeightBytes);
    fs::remove(made);
    return bytes;
  }

  // Runs the program of device code once more with further arguments, itself an argument of the command
  // `around`.
  sandbox::Outcome check(std::vector<std::string> around, const std::vector<std::string>& more) const {
    sandbox::Policy policy = policy_for(300);
    policy.may_gpu = true;
    policy.read_only.push_back(command_.front());
    policy.read_only.push_back(base_ / "entry");
    sandbox::Offers offers = offers_;
    if (!around.empty()) {
      // A tool such as compute-sanitizer inspects the program and communicates with it, which the sandbox
      // forbids. The program is the judge's own: no code of the entry runs on the host.
      offers.landlock = 0, offers.seccomp = false, policy.least = sandbox::Level::none;
    }
    for (const std::string& argument : with(more)) around.push_back(argument);
    return sandbox::run(around, policy, offers);
  }

 private:
  explicit Stage(const sandbox::Offers& offers) : offers_(offers) {
    for (const char* inside : {"work", "entry"}) fs::create_directory(base_ / inside);
  }
  static void copy(const fs::path& from, const fs::path& to, fs::perms mode) {
    fs::copy_file(from, to);
    fs::permissions(to, mode);
  }

  std::vector<std::string> with(const std::vector<std::string>& more) const {
    std::vector<std::string> command = command_;
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  sandbox::Policy policy_for(double seconds) const {
    sandbox::Policy policy;
    policy.read_only = sandbox::system_paths();
    policy.work = base_ / "work";
    policy.wall_seconds = policy.cpu_seconds = seconds;
    return policy;
  }

  static fs::path source() { return tinytorch_tree::kSourceFolder; }

  void copy_headers(const fs::path& folder) const {
    for (const std::string& name : replaced_) {
      fs::create_directories((base_ / "student" / name).parent_path());
      copy(folder / kHeaderFolder / name, base_ / "student" / name, fs::perms(0644));
    }
  }

  // The headers that a student's worker says it is built on.
  std::vector<std::string> headers_of_worker() const {
    sandbox::Policy policy = policy_for(10);
    policy.read_only.push_back(command_.front());
    const sandbox::Outcome told = sandbox::run({command_.front(), "worker", "--headers"}, policy, offers_);
    if (!told.good())
      throw std::invalid_argument(
          "the worker must be `tinymlperf` of a build with TINYTORCH_STUDENT, which knows its headers: " +
          told.reason + "\n" + told.err);
    HeaderSet headers;
    std::istringstream lines(told.out);
    for (std::string line; std::getline(lines, line);)
      headers.add(std::string(kHeaderFolder) + "/" + line, 0);
    return headers.names();
  }

  // Sources and headers of the folder itself, without subfolders.
  void copy_sources(const fs::path& folder, std::initializer_list<std::string_view> kinds) {
    constexpr uintmax_t kMostBytes = 4 << 20;
    uintmax_t bytes = 0;
    for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
      const std::string kind = file.path().extension().string();
      if (!file.is_regular_file() || std::ranges::find(kinds, kind) == kinds.end()) continue;
      if ((bytes += file.file_size()) > kMostBytes)
        throw std::invalid_argument(folder.string() + ": at most 4 MiB of source");
      copy(file.path(), base_ / "entry" / file.path().filename(), fs::perms(0644));
    }
  }
  // The source of the submission by its path in it: files beside the plugin or plan, and replaced headers.
  std::map<std::string, fs::path> sources() const {
    std::map<std::string, fs::path> out;
    for (const fs::directory_entry& file : fs::directory_iterator(base_ / "entry"))
      if (bundle::is_source_path(file.path().string())) out[file.path().filename().string()] = file.path();
    for (const std::string& name : replaced_)
      if (fs::exists(base_ / "student" / name))
        out[std::string(kHeaderFolder) + "/" + name] = base_ / "student" / name;
    return out;
  }
  static std::string text_of(const fs::path& file) {
    return tinymlperf::detail::read_limited(file, static_cast<int64_t>(fs::file_size(file)));
  }
  void note_written() {
    for (const auto& [name, path] : sources())
      for (std::string& reason : bundle::static_reasons(name, text_of(path)))
        reasons_.push_back(std::move(reason));
  }

  // Compiles for the GPU of this machine; the compiler has no access to it.
  void compile_plan() {
    namespace cuda = tinytorch::backend::cuda;
    if (!cuda::is_available() || TINYTORCH_CUDA_SIM) {
      WithoutGpu without(std::string(device::kPlanFile) +
                         " is device code, which needs a GPU and a program built with CUDA: " +
                         (cuda::is_built() && !TINYTORCH_CUDA_SIM
                              ? "no GPU answers"
                              : "this one was built without (-DTINYTORCH_WITH_CUDA=ON)"));
      without.reasons = reasons_;
      throw without;
    }
    const fs::path program = base_ / "program", entry = base_ / "entry";
    copy("/proc/self/exe", program, fs::perms(0755));
    sandbox::Policy policy = policy_for(120);
    policy.read_only.push_back(program);
    policy.read_only.push_back(entry);
    const sandbox::Outcome made = sandbox::run({program.string(), "worker", entry.string(), "--compile",
                                                device::architecture_of(cuda::properties(0))},
                                               policy, offers_);
    if (!made.good())
      throw std::invalid_argument(std::string(device::kPlanFile) + " does not compile: " + made.reason +
                                  "\n" + made.err);
    for (const fs::directory_entry& file : fs::directory_iterator(base_ / "work"))
      if (file.is_regular_file() &&
          (file.path().extension() == ".cubin" || file.path().filename() == device::kSymbolsFile))
        copy(file.path(), entry / file.path().filename(), fs::perms(0644));
    command_ = {program.string(), "worker", entry.string(), "--device"};
  }

  void compile_plugin() {
    compile(base_ / "entry" / kPluginFile, {"channel", "entries/plugin.hpp", "entries/kernels.hpp"}, {"-O2"},
            120);
    command_ = {(base_ / "program").string()};
  }
  // Compiles with the flags of the compiled library that it is compared with.
  void compile_worker() {
    std::vector<std::string> flags{"-O3", "-fno-math-errno", "-fno-trapping-math", "-DFMT_HEADER_ONLY"};
#ifdef __x86_64__
    flags.push_back("-mprefer-vector-width=512");
#endif
    compile(base_ / "include/tinymlperf/judge/workers/worker.cpp",
            {"benchmarks", "channel", "entries", "judge/workers", "support", "training"}, flags, 600);
  }

  // Builds the program. `parts` are the folders and files of bench/tinymlperf/ that it includes beside the
  // library.
  void compile(const fs::path& main, const std::vector<const char*>& parts,
               const std::vector<std::string>& flags, double seconds) {
    const fs::path include = base_ / "include", students = base_ / "student";
    const auto all = fs::copy_options::recursive;
    for (const char* part : parts) {
      fs::create_directories((include / "tinymlperf" / part).parent_path());
      fs::copy(source() / "bench/tinymlperf" / part, include / "tinymlperf" / part, all);
    }
    fs::copy(source() / "include/tinytorch", include / "tinytorch", all);
    sandbox::Policy policy = policy_for(seconds);
    std::vector<std::string> command{compiler(), "-std=c++20", "-march=native", "-pthread"};
    command.insert(command.end(), flags.begin(), flags.end());
#ifdef _OPENMP
    command.push_back("-fopenmp");  // the judge's kernels are compiled with OpenMP, too
#endif
    for (const fs::path& folder : {students, include, base_ / "entry"}) {
      if (!fs::exists(folder)) continue;
      policy.read_only.push_back(folder);
      command.insert(command.end(), {"-I", folder.string()});
    }
    command.insert(command.end(), {main.string(), "-o", "plugin"});
    look_behind_macros(command, policy);
    const sandbox::Outcome made = sandbox::run(command, policy, offers_);
    if (!made.good())
      throw std::invalid_argument(main.filename().string() + " does not compile: " + made.reason + "\n" +
                                  made.err);
    copy(base_ / "work/plugin", base_ / "program", fs::perms(0755));
    fs::remove(base_ / "work/plugin");
  }
  // If the preprocessor fails, the compiler will report why.
  void look_behind_macros(std::vector<std::string> command, const sandbox::Policy& policy) {
    command.back() = kPreprocessed;
    command.push_back("-E");
    (void)note_hidden(kPluginFile, command, policy);
  }
  // NVRTC cannot write preprocessed source, so the host's preprocessor reads it with the macros that NVRTC
  // defines.
  void look_behind_device_macros() {
    sandbox::Policy policy = policy_for(60);
    policy.read_only.push_back(base_ / "entry");
    for (const auto& [name, path] : sources()) {
      if (!name.ends_with(".cu")) continue;
      std::vector<std::string> command{compiler(), "-E", "-x", "c++", "-std=c++20"};
      for (const char* defined : {"__CUDACC__", "__CUDACC_RTC__", "__CUDA_ARCH__=900"})
        command.push_back(std::string("-D") + defined);
#ifdef TINYMLPERF_NVRTC_INCLUDE
      command.insert(command.end(), {"-isystem", TINYMLPERF_NVRTC_INCLUDE});
#endif
      command.insert(command.end(), {path.string(), "-o", kPreprocessed});
      if (!note_hidden(name, command, policy))
        reasons_.push_back(name +
                           ": the host's preprocessor does not get through it, so that what its macros "
                           "make of names was not seen");
    }
  }
  // Reads the command's output for `main` and all that it includes; false if there is none.
  bool note_hidden(const std::string& main, const std::vector<std::string>& command,
                   const sandbox::Policy& policy) {
    constexpr int64_t kMostBytes = int64_t{64} << 20;
    const fs::path output = base_ / "work" / kPreprocessed;
    const bool good =
        sandbox::run(command, policy, offers_).good() && fs::is_regular_file(fs::symlink_status(output));
    if (!good) return false;
    if (static_cast<int64_t>(fs::file_size(output)) > kMostBytes) {
      reasons_.push_back(main + ": is too long to be read after the preprocessor");
    } else {
      const std::string after = tinymlperf::detail::read_limited(output, kMostBytes);
      for (const auto& [name, path] : sources())
        for (std::string& reason :
             bundle::hidden_reasons(name, text_of(path), bundle::preprocessed_lines(after, path.string())))
          if (std::ranges::find(reasons_, reason) == reasons_.end()) reasons_.push_back(std::move(reason));
    }
    fs::remove(output);
    return true;
  }
  static constexpr const char* kPreprocessed = "plugin.ii";
  static std::string compiler() {
    for (const char* path : {"/usr/bin/c++", "/usr/bin/g++", "/usr/bin/clang++"})
      if (fs::exists(path)) return path;
    throw sandbox::Unavailable(  // not the entry's fault
        "source is compiled by /usr/bin/c++, which is not here: install g++");
  }

  sandbox::Offers offers_;
  TemporaryFolder base_;
  std::string tier_ = "T0";
  std::vector<std::string> command_, reasons_, replaced_;
};

}  // namespace tinymlperf::judge
