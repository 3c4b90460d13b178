// `tinymlperf profile MODEL`: where a step's time, work and memory go, on the terminal and as one HTML page.
// The machine's peak rates are also written as JSON, for comparison with other measurements.
//
// MODEL is a bundled model (linear, mlp, lenet, wasteful), gpt2 (124M parameters), gpt2-tiny, or an entry's
// folder. A few steps are run to warm up, then profiled together; memory is taken from one more step, so that
// its records do not slow the timed ones.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/commands/profile_json.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/support/machine.hpp>
#include <tinymlperf/support/output_folder.hpp>
#include <tinymlperf/support/reason.hpp>
#include <tinymlperf/training/train.hpp>
#include <tinytorch/profiling/peaks.hpp>
#include <tinytorch/profiling/report.hpp>
#include <tinytorch/profiling/trace.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <vector>

namespace tinymlperf {

struct ProfileOptions {
  std::string model;
  std::filesystem::path out = "build/profile";
  int64_t batch = 0;    // 0: 64 images, or 4 sequences
  int64_t length = 64;  // tokens of a sequence
  int64_t steps = 5;    // profiled together
  bool inference = false;
  std::string device = "cpu";
  std::string dtype = "f32";
  std::string json;               // a file for the profile; "": none
  std::string against;            // such a file from before a change; "": none
  std::vector<std::string> part;  // ops that were changed; none: the one whose time changed most
  bool ablation = false;          // measure a step with each switch on and off
  std::string commit;             // commit of the program, for the report; "": unknown
};

// A model with its data, and one step of it.
struct ProfiledModel {
  std::shared_ptr<tt::Module> model;
  std::function<void()> step;
  std::string title;
};

namespace detail {

inline tt::DType dtype_named(const std::string& name) {
  for (const tt::DType t : {tt::f32, tt::bf16, tt::f16, tt::f64})
    if (name == tt::name_of(t)) return t;
  throw std::invalid_argument("--dtype " + name + ": there are f32, bf16, f16 and f64");
}

// loss() builds the graph; a training step is loss, backward pass and AdamW.
inline std::function<void()> step_of(const std::shared_ptr<tt::Module>& model, const ProfileOptions& o,
                                     std::function<tt::Tensor()> loss, std::function<void()> inference) {
  if (o.inference) {
    model->eval();
    return [inference] {
      const tt::NoGrad guard;
      inference();
    };
  }
  auto optimizer = std::make_shared<tt::AdamW>(model->named_parameters());
  return [optimizer, loss] {
    optimizer->zero_grad();
    loss().backward();
    optimizer->step();
  };
}

inline ProfiledModel language_model(const ProfileOptions& o, tt::DType dtype, tt::Device device) {
  tt::Gpt2Config c;
  if (o.model == "gpt2-tiny")
    c.vocabulary = 256, c.context = 256, c.features = 128, c.layers = 4, c.heads = 4;
  else  // padded as for training: with odd rows the products of the logits took 58 % of a step on an H100, at
        // 12 % of its peak
    c.vocabulary = 50304;
  c.embedding_dropout = c.attention_dropout = c.residual_dropout = 0;
  c.context = std::max(c.context, o.length);
  const int64_t batch = o.batch > 0 ? o.batch : 4;
  auto model = std::make_shared<tt::Gpt2>(c);
  model->to(dtype);
  model->to(device);
  const tt::Tensor tokens = tt::randint(0, c.vocabulary, {batch, o.length}).to(device);
  const tt::Tensor targets = tt::randint(0, c.vocabulary, {batch, o.length}).to(device);
  auto step = step_of(
      model, o, [=] { return model->loss(tokens, targets); }, [=] { model->forward(tokens); });
  return {model, std::move(step), fmt::format("{}, {} sequences of {} tokens", o.model, batch, o.length)};
}

inline ProfiledModel image_model(const ProfileOptions& o, const EntrySpec& spec, tt::DType dtype,
                                 tt::Device device) {
  tt::Generator random(kTrainingSeed);
  const int64_t batch = o.batch > 0 ? o.batch : 64;
  const std::shared_ptr<tt::Module> model = build_layers(spec, random);
  model->to(dtype);
  model->to(device);
  const tt::Digits digits = tt::digits(batch, kTrainingSeed);
  const tt::Tensor images = digits.images.to(dtype).to(device), labels = digits.labels.to(device);
  auto step = step_of(
      model, o, [=] { return tt::cross_entropy((*model)(images), labels); }, [=] { (*model)(images); });
  return {model, std::move(step), fmt::format("{}, {} images", spec.name, batch)};
}

inline ProfiledModel model_of(const ProfileOptions& o) {
  const tt::DType dtype = dtype_named(o.dtype);
  const tt::Device device = o.device == "cuda" ? tt::cuda : tt::cpu;
  if (o.model.starts_with("gpt2")) {
    if (o.model != "gpt2" && o.model != "gpt2-tiny")
      throw std::invalid_argument("profile " + o.model + ": there are gpt2 and gpt2-tiny");
    return language_model(o, dtype, device);
  }
  for (const Recipe& recipe : bundled_recipes())
    if (recipe.spec.name == o.model) return image_model(o, recipe.spec, dtype, device);
  if (!std::filesystem::is_directory(o.model))
    throw std::invalid_argument(
        "profile " + o.model +
        ": no such model; there are linear, mlp, lenet, wasteful, gpt2, gpt2-tiny, and folders "
        "with a model.json");
  return image_model(o, load_entry(o.model).network.spec(), dtype, device);
}

inline void synchronize(tt::Device device) {
  if (device.is_cuda()) tt::backend::cuda::synchronize();
}

inline void require_switches(const ProfileOptions& o) {
  if (o.dtype == "f32" || (o.device != "cuda" && tt::thread_count() > 1)) return;
  throw std::invalid_argument("--ablation: a step of " + o.dtype + " on " + o.device +
                              " has no switch left; take --dtype f32, or more threads");
}

// Switches that change the time of a step and not its work: all threads instead of one on the CPU, and bf16
// instead of f32. Each setting runs a step of `o`'s model, in bf16 of a copy of it. require_switches()
// ensures that there is one.
inline profiling::Ablation ablate_step(const ProfileOptions& o, ProfiledModel& m) {
  const int threads = tt::thread_count();
  const tt::Device device = m.model->device();
  std::vector<profiling::Optimization> switches;
  std::optional<ProfiledModel> narrow;
  bool narrow_on = false;
  if (!device.is_cuda() && threads > 1)
    switches.push_back(
        {fmt::format("{} threads", threads), [=](bool on) { tt::set_thread_count(on ? threads : 1); }});
  if (o.dtype == "f32") {
    ProfileOptions of_narrow = o;
    of_narrow.dtype = "bf16";
    narrow = model_of(of_narrow);
    switches.push_back({"bf16", [&](bool on) { narrow_on = on; }});
  }
  profiling::Ablation result = profiling::ablate(switches, [&] {
    (narrow_on ? *narrow : m).step();
    synchronize(device);
  });
  tt::set_thread_count(threads);
  return result;
}

}  // namespace detail

// A profile that a later one can be compared with.
struct Measured {
  ProfiledModel model;
  std::optional<profiling::Profile> before;
  profiling::Report report = {};
};

namespace detail {

inline Measured measure_model(const ProfileOptions& o) {
  // Options that cannot work are refused before anything is measured.
  if (o.ablation) require_switches(o);
  std::optional<profiling::Profile> before;
  if (!o.against.empty()) before = read_profile(o.against);
  Measured measured{model_of(o), std::move(before)};
  ProfiledModel& m = measured.model;
  profiling::Report& r = measured.report;
  const tt::Device device = m.model->device();
  r.title = fmt::format("{} of {}, {} on {}", o.inference ? "Inference" : "A training step", m.title, o.dtype,
                        o.device);
  r.steps = o.steps;
  for (int i = 0; i < 3; ++i) m.step();
  synchronize(device);
  tt::backend::cuda::count_launches(device.is_cuda());
  {
    profiling::Profiler profiler(*m.model);
    for (int64_t i = 0; i < o.steps; ++i) {
      const tt::backend::cuda::RangeGuard range("profiled step");  // bench/compare_ncu.py looks for it
      m.step();
    }
    synchronize(device);
    r.profile = profiler.finish();
  }
  tt::backend::cuda::count_launches(false);
  r.launches = tt::backend::cuda::launch_records();
  {
    profiling::Profiler profiler(*m.model);
    profiling::MemoryProfiler memory(profiler);
    m.step();
    synchronize(device);
    profiler.finish();
    r.memory = memory.finish(device);
  }
  if (device.is_cuda()) {
    const auto& properties = tt::backend::cuda::properties(device.index);
    r.device_major = properties.major, r.device_minor = properties.minor;
  }
  r.peaks = profiling::measure_peaks(device, dtype_named(o.dtype));
  r.conditions.push_back(fmt::format("{} parameters.", m.model->parameter_count()));
  return measured;
}

inline void compare(const ProfileOptions& o, Measured& m) {
  if (m.before)
    m.report.change =
        profiling::compare_profiles(*m.before, profiling::mean_step(m.report.profile, o.steps), o.part);
  if (o.ablation) m.report.ablation = ablate_step(o, m.model);
}

}  // namespace detail

inline profiling::Report profile_model(const ProfileOptions& o) {
  Measured m = detail::measure_model(o);
  detail::compare(o, m);
  return std::move(m.report);
}

// Machine, driver and commit of a measurement. "" means unknown.
struct Provenance {
  Machine machine;
  std::string driver;  // driver of the GPU
  std::string commit;
};

namespace detail {

inline std::vector<std::string> conditions_of(const Provenance& p) {
  const Machine& m = p.machine;
  std::vector<std::string> lines{fmt::format("Machine: {}, {} cores, {} threads used; {}; {}.", m.cpu,
                                             m.cores, m.threads, m.compiler, m.flags)};
  if (!p.driver.empty()) lines.push_back("Driver of the GPU: " + p.driver + ".");
  lines.push_back(m.library + (p.commit.empty() ? ", of no known commit." : ", commit " + p.commit + "."));
  lines.push_back("Measured " + m.date + ".");
  return lines;
}

inline Json to_json(const profiling::MachinePeaks& c, const std::string& dtype, const Provenance& p) {
  const auto known = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"device", c.device},
          {"machine", p.machine.cpu},
          {"dtype", dtype},
          {"flops_per_second", c.flops_per_second},
          {"bytes_per_second", c.bytes_per_second},
          {"seconds_per_op", c.seconds_per_op},
          {"driver", known(p.driver)},
          {"commit", known(p.commit)},
          {"date", p.machine.date}};
}

inline void write_page(const ProfileOptions& o, const profiling::Report& r) {
  profiling::save_html_report(r, (o.out / "profile.html").string());
}

inline void write_profile(const ProfileOptions& o, const profiling::Report& r, const Provenance& p) {
  const Json peaks = to_json(r.peaks, o.dtype, p);
  if (!o.json.empty())
    tt::write_file(
        o.json, tinymlperf::to_json(profiling::mean_step(r.profile, o.steps), r.title, peaks).dump(1) + "\n");
  profiling::save_chrome_trace(r.profile, (o.out / "trace.json").string());
  tt::write_file((o.out / "peaks.json").string(), peaks.dump(1) + "\n");
  write_page(o, r);
}

// If a comparison fails, the files that are already written stay. Returns the exit status.
inline int add_comparisons(const ProfileOptions& o, Measured& m) {
  try {
    compare(o, m);
    write_page(o, m.report);
    return kPass;
  } catch (const std::exception& e) {
    complain(
        fmt::format("the profile is written and whole, but not what it was to be compared with: {}. Leave "
                    "--against and --ablation out, or mend that and profile again",
                    reason_of(e.what())));
    return kFailed;
  }
}

}  // namespace detail

// Exit status: 0 the report was written, 1 it was written without the comparison or the ablation, 2 it could
// not be made as asked.
inline int run_profile(const ProfileOptions& o) {
  try {
    const OutputFolder folder(o.out, {"profile.html", "trace.json", "peaks.json"});
    if (!o.json.empty()) tt::require_writable(o.json);
    Measured m = detail::measure_model(o);
    const Provenance provenance{describe_machine(), o.device == "cuda" ? gpu_driver() : "", o.commit};
    for (std::string& line : detail::conditions_of(provenance))
      m.report.conditions.push_back(std::move(line));
    detail::write_profile(o, m.report, provenance);
    const int status = m.before || o.ablation ? detail::add_comparisons(o, m) : kPass;
    fmt::print("{}\nwrote {}, {} and {} (open the trace in ui.perfetto.dev)\n",
               profiling::text_report(m.report), (o.out / "profile.html").string(),
               (o.out / "peaks.json").string(), (o.out / "trace.json").string());
    return status;
  } catch (const std::invalid_argument& e) {
    return detail::complain(e.what());
  } catch (const tt::BuiltWithoutCuda& e) {
    return detail::complain(e.what());
  }
}

}  // namespace tinymlperf
