// Spans of scopes on a GPU, in profiles written by hand and in the profile of a model.
#include <support/device.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/profiling/device_spans.hpp>
#include <tinytorch/profiling/profiler.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using namespace tinytorch::profiling;
using test::needs_devices;
using test::on_cuda;

namespace {

OpRecord op(int32_t scope, double start, double seconds, bool backward = false, int device = 0) {
  OpRecord r;
  r.name = "op";
  r.scope = scope;
  r.device = on_cuda(device);
  r.device_start = start, r.device_seconds = seconds;
  r.backward = backward;
  return r;
}

Profile with_scopes() {
  Profile p;
  p.scopes = {{"", -1, 0, 9}, {"model", 0, 0, 9}, {"model.a", 1, 0, 1}, {"model.b", 1, 1, 1}};
  return p;
}

// Formats spans as "model 1-5, model.a 1-2 back".
std::string outline(const Profile& p) {
  std::string text;
  for (const DeviceSpan& s : device_spans(p)) {
    char number[64];
    std::snprintf(number, sizeof number, " %g-%g", s.start, s.start + s.seconds);
    text += (text.empty() ? "" : ", ") + p.scopes[static_cast<size_t>(s.scope)].path + number +
            (s.backward ? " back" : "");
  }
  return text;
}

}  // namespace

TEST_CASE("a scope spans its ops and those of nested scopes") {
  Profile p = with_scopes();
  CHECK(outline(p).empty());
  p.ops = {op(1, 1, 0.5), op(2, 2, 0.5), op(2, 3, 0.5), op(3, 4, 1)};
  CHECK(outline(p) == "model 1-5, model.a 2-3.5, model.b 4-5");
}

TEST_CASE("ops are taken in the order of the device, and an op outside of all scopes has no span") {
  Profile p = with_scopes();
  p.ops = {op(3, 4, 1), op(0, 6, 1), op(2, 2, 1), op(1, 7, 0.5)};
  CHECK(outline(p) == "model 2-5, model.a 2-3, model.b 4-5, model 7-7.5");
}

TEST_CASE("the backward pass has its own spans, and a scope that is entered again has another one") {
  Profile p = with_scopes();
  p.ops = {op(2, 1, 1),       op(3, 2, 1),       op(3, 4, 1, true), op(2, 5, 1, true),
           op(3, 6, 1, true), op(1, 7, 1, true), op(2, 8, 1, true)};
  CHECK(outline(p) ==
        "model 1-3, model.a 1-2, model.b 2-3, model 4-9 back, model.b 4-5 back, model.a 5-6 back, "
        "model.b 6-7 back, model.a 8-9 back");
}

TEST_CASE("inner ops and ops on the CPU are ignored; another GPU has its own spans") {
  Profile p = with_scopes();
  p.ops = {op(2, 1, 4), op(3, 2, 1), op(3, 6, 1), op(3, 3, 1, false, 1)};
  p.ops[1].parent = 0;
  p.ops[2].device = tt::cpu;
  CHECK(outline(p) == "model 1-5, model.a 1-5, model 3-4, model.b 3-4");
}

TEST_CASE("a model on a GPU: in both passes all ops are inside of their module's spans" * needs_devices()) {
  tt::Sequential model(tt::Linear(16, 32), tt::Linear(32, 4));
  model.to(tt::cuda);
  const tt::Tensor x = tt::ones({8, 16}).to(tt::cuda);
  Profiler profiler(model);
  tt::sum(model(x)).backward();
  const Profile p = profiler.finish();
  const auto spans = device_spans(p);
  int forward = 0, backward = 0;
  for (const DeviceSpan& s : spans) {
    const bool whole = p.scopes[static_cast<size_t>(s.scope)].path == "model";
    forward += whole && !s.backward, backward += whole && s.backward;
    CHECK(s.seconds > 0);
  }
  CHECK(forward == 1);
  CHECK(backward >= 1);
  for (const OpRecord& o : p.ops) {
    if (!o.device.is_cuda() || o.parent >= 0 || o.scope == 0) continue;
    bool held = false;
    for (const DeviceSpan& s : spans)
      held = held || (s.scope == o.scope && s.backward == o.backward && s.start <= o.device_start &&
                      o.device_start + o.device_seconds <= s.start + s.seconds + 1e-12);
    CAPTURE(o.name);
    CHECK(held);
  }
}
