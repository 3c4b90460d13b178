// Batch sizes that were not recorded: after three recordings, whose guards differ in one batch size alone, a
// compiled function serves every other size without running it.
//
// The batch size is the size of dimension 0 of one or more arguments. Three recordings form a family if
//   - their guards differ in nothing else (differ_in_batch);
//   - their graphs have one form: the same operations, which read and write the same values;
//   - a rehearsal (rehearsal.hpp) with the size of each recording, on zeros, gives exactly its graph, with
//     all numbers and constants. So nothing in the graph depends on elements, or changes from call to call.
// The first call with a new size rehearses the function: it runs without kernels, and says which sizes,
// numbers and constants the graph has. A graph of the family's form is planned and replayed, already in this
// call. One of another form, of a function that branches on the size, is recorded as a variant. The second
// call runs the function once more and compares, as for a recording; later ones replay the plan. The plans of
// the last `most_sizes` sizes are kept.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <tinytorch/acceleration/guard.hpp>
#include <tinytorch/acceleration/lower.hpp>
#include <tinytorch/acceleration/rehearsal.hpp>
#include <tinytorch/acceleration/signature.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The part of a variant that decides for which calls it is.
struct CallKey {
  std::vector<ArgumentKey> arguments;
  bool records = true;     // grad_enabled() at its capture
  bool rehearsed = false;  // its batch size was not recorded
  uint64_t last_use = 0;

  bool matches(const Tensors& now) const {
    return records == grad_enabled() && tinytorch::matches(arguments, now);
  }
};

inline CallKey key_of_call(const Tensors& arguments) { return {keys_of(arguments), grad_enabled()}; }

// Zeros in the layouts of clones of the arguments.
inline Tensors blanks_for(const Tensors& arguments) {
  Tensors out;
  for (const Tensor& t : arguments) {
    const Tensor like = t.detach().clone();
    const bool grad = grad_enabled() && tracks_grad(t);
    out.push_back(blank(like.shape(), like.strides(), like.dtype(), like.device(), grad));
  }
  return out;
}

// The families of a compiled function's variants. Variant has `key`, a CallKey; `captured`, the graph before
// fusion, which begins with the arguments; and `report`.
template <class Variant>
class BatchSizes {
 public:
  struct Family {
    CallKey key;                // of one recording
    std::vector<bool> follows;  // the arguments whose dimension 0 is the batch size
    OpGraph form;
    std::string recordings;
  };

  explicit BatchSizes(const CompileOptions& options) : most_sizes_(options.most_sizes) {}

  // Forms a family of variants.back(), which was just recorded, and two others if that is possible.
  // `rehearse` takes blanks, and gives the graph that is compared with a recording's.
  template <class Rehearse>
  void learn(const std::vector<Variant>& variants, Rehearse&& rehearse) {
    const Variant& last = variants.back();
    if (most_sizes_ < 1 || family_of(last.key)) return;
    std::vector<const Variant*> recordings{&last};
    std::optional<std::vector<bool>> follows;
    for (const Variant& v : variants) {
      if (&v == &last || v.key.rehearsed || v.key.records != last.key.records) continue;
      const auto batch = differ_in_batch(v.key.arguments, last.key.arguments);
      if (!batch || (follows && *batch != *follows) || recordings.size() == 3) continue;
      refusal_ = first_difference(v.captured, v.captured.steps.size(), last.captured, Sameness::form);
      if (!refusal_) follows = batch, recordings.push_back(&v);
    }
    if (recordings.size() < 3) return;
    Family family{last.key, *follows, copy_of(last.captured, 0, last.captured.steps.size()), ""};
    for (const Variant* v : recordings) {
      if ((refusal_ = difference_of_rehearsal(*v, rehearse))) return;
      family.recordings += (family.recordings.empty() ? "" : "; ") + v->report.arguments;
    }
    for (GraphValue& v : family.form.values) v.external = Tensor();  // not kept alive
    families_.push_back(std::move(family));
  }

  // Adds a variant for a batch size of a family, and returns it; null if these arguments have no family, if
  // the rehearsal fails, or if its graph has another form. `make` makes a variant of a rehearsal of blanks.
  template <class Make>
  Variant* rehearse(std::vector<Variant>& variants, const Tensors& arguments, Make&& make) {
    const Family* const family = family_of(key_of_call(arguments));
    if (!family) return nullptr;
    try {
      const GeneratorUse not_yet;
      Variant v = make(blanks_for(arguments));
      refusal_ = first_difference(family->form, family->form.steps.size(), v.captured, Sameness::form);
      if (refusal_) return nullptr;
      v.key.rehearsed = true;
      v.report.rehearsed = family->recordings;
      make_room(variants);
      variants.push_back(std::move(v));
      return &variants.back();
    } catch (const Error& e) {
      refusal_ = e.what();  // the recording, which follows, throws it if it is the function's own
      return nullptr;
    }
  }

  // Marks the use of a variant.
  void use(Variant& v) { v.key.last_use = ++clock_; }
  // Forgets all families and the variants made from them, because a variant that they were learnt from was
  // wrong.
  void forget(std::vector<Variant>& variants) {
    families_.clear();
    std::erase_if(variants, [](const Variant& v) { return v.key.rehearsed; });
  }
  static int64_t recorded(const std::vector<Variant>& variants) {
    return std::ranges::count_if(variants, [](const Variant& v) { return !v.key.rehearsed; });
  }

  // Describes, as text, which batch sizes need no recording, and why the others are recorded.
  std::string report() const {
    std::string text;
    for (const Family& f : families_) {
      text += "any batch size (dimension 0 of argument";
      for (size_t k = 0; k < f.follows.size(); ++k) text += f.follows[k] ? " " + std::to_string(k) : "";
      text += ") after the recordings of " + f.recordings + "\n";
    }
    if (refusal_) text += "batch size recorded, not followed: " + *refusal_ + "\n";
    return text;
  }

 private:
  // The family of these arguments, or null.
  const Family* family_of(const CallKey& key) const {
    for (const Family& f : families_) {
      if (f.key.records != key.records) continue;
      const auto batch = differ_in_batch(f.key.arguments, key.arguments);
      if (batch && *batch == f.follows) return &f;
    }
    return nullptr;
  }
  // Drops the plan of the size that was not used for longest, if there are as many as are kept.
  void make_room(std::vector<Variant>& variants) const {
    const auto rehearsed = [](const Variant& v) { return v.key.rehearsed; };
    if (std::ranges::count_if(variants, rehearsed) < most_sizes_) return;
    const auto age = [](const Variant& v) { return v.key.rehearsed ? v.key.last_use : UINT64_MAX; };
    variants.erase(std::ranges::min_element(variants, {}, age));
  }
  // Rehearses the function with the sizes of a recording, and returns the first difference between both;
  // nullopt if they agree.
  template <class Rehearse>
  static std::optional<std::string> difference_of_rehearsal(const Variant& v, Rehearse& rehearse) {
    Tensors blanks;
    for (size_t k = 0; k < v.key.arguments.size(); ++k) {
      const GraphValue& x = v.captured.value(v.captured.inputs[k]);
      const bool grad = v.key.records && v.key.arguments[k].grad;
      blanks.push_back(blank(x.shape, x.strides, x.dtype, x.device, grad));
    }
    try {
      const GeneratorUse not_yet;
      auto found = first_difference(v.captured, v.captured.steps.size(), rehearse(blanks));
      if (found) *found = "without kernels, " + *found;
      return found;
    } catch (const Error& e) {
      return std::string("it cannot be rehearsed: ") + e.what();
    }
  }

  int64_t most_sizes_;
  std::vector<Family> families_;
  std::optional<std::string> refusal_;
  uint64_t clock_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD
