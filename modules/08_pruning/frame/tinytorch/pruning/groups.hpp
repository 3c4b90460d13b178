// Dependency groups: which channels of which tensors must go together, found by running the model once.
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.8. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <tinytorch/layers/eval_mode.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

// Index `index` along dimension `dim` of the parameter or buffer `name`.
struct ChannelMember {
  std::string name;
  int dim = 0;
  int64_t index = 0;
};
struct ChannelGroup {
  std::vector<ChannelMember> members;
  bool pinned = false;  // it must stay
};

class ChannelGraph : private OpObserver {
 public:
  // Runs model(x) in eval mode, without a graph.
  ChannelGraph(Module& model, const Tensor& x, TT_LOC) {
    const NoGrad no_grad;
    const EvalMode eval(model);
    new_tag();  // tag 0: no channel
    pin(0);
    for (const NamedTensors& group : {model.named_parameters(), model.named_buffers()}) {
      for (const NamedTensor& t : group) {
        if (!is_floating(t.tensor.dtype())) continue;
        Owner& owner = owners_[t.tensor.storage().get()];
        if (owner.tensor.defined()) continue;  // tied weights have their first name
        owner.name = t.name, owner.tensor = t.tensor;
      }
    }
    Tensor y;
    {
      const Observing observing(*this);
      y = model(x, loc);
    }
    pin_all(tags_of(y));
  }

  // All groups with at least one member, in the order of their first member. Tags of an op that is not known
  // are pinned; unknown() names these ops.
  std::vector<ChannelGroup> groups() {
    std::map<int64_t, size_t> place;
    std::vector<ChannelGroup> out;
    for (const auto& [key, tag] : order_) {
      const int64_t root = find(tag);
      if (root == find(0)) continue;
      const auto [found, fresh] = place.emplace(root, out.size());
      if (fresh) out.push_back({{}, pinned_[static_cast<size_t>(root)] != 0});
      out[found->second].members.push_back(key);
    }
    return out;
  }
  const std::set<std::string>& unknown() const { return unknown_; }

 private:
  struct Owner {
    std::string name;
    Tensor tensor;
    std::map<int, std::vector<int64_t>> tags;  // of a dimension
  };

  int64_t new_tag() {
    parent_.push_back(static_cast<int64_t>(parent_.size())), pinned_.push_back(0);
    return parent_.back();
  }
  int64_t find(int64_t t) {
    while (parent_[static_cast<size_t>(t)] != t)
      t = parent_[static_cast<size_t>(t)] = parent_[static_cast<size_t>(parent_[static_cast<size_t>(t)])];
    return t;
  }
  void pin(int64_t t) { pinned_[static_cast<size_t>(find(t))] = 1; }
  int64_t unite(int64_t a, int64_t b);  // task 8.8
  void pin_all(const Tensor& tags) {
    for (int64_t i = 0; i < tags.numel(); ++i)
      if (tags.data<int64_t>()[i] != 0) pin(tags.data<int64_t>()[i]);
  }

  // The tags along a dimension of a parameter or buffer, which are made at their first use.
  std::vector<int64_t>* tags_along(const Tensor& t, int dim) {
    const auto found = owners_.find(t.storage().get());
    if (found == owners_.end() || !(found->second.tensor.shape() == t.shape())) return nullptr;
    std::vector<int64_t>& tags = found->second.tags[dim];
    for (int64_t i = static_cast<int64_t>(tags.size()); i < t.size(dim); ++i) {
      tags.push_back(new_tag());
      order_.push_back({{found->second.name, dim, i}, tags.back()});
    }
    return &tags;
  }
  // i64, contiguous, in the shape of t.
  Tensor tags_of(const Tensor& t) {
    const auto known = known_.find(t.impl());
    if (known != known_.end()) return known->second.tags;
    // An alias that was made outside of apply(): the same numbers in another shape.
    for (const auto& [impl, entry] : known_)
      if (entry.tensor.storage() == t.storage() && entry.tensor.numel() == t.numel() &&
          entry.tensor.is_contiguous() && t.is_contiguous())
        return entry.tags.reshape(t.shape());
    const Tensor tags = zeros(t.shape(), DType::i64, cpu);
    if (!owners_.count(t.storage().get())) return tags;
    if (const auto* const own = t.rank() == 1 ? tags_along(t, 0) : nullptr) {
      std::copy(own->begin(), own->end(), tags.data<int64_t>());
    } else {  // a matrix that is no weight of a layer, such as learned positions: its last dimension stays
      for (int d = 0; d < t.rank(); ++d)
        if (auto* const all = tags_along(t, d))
          for (const int64_t tag : *all) pin(tag);
    }
    return tags;
  }
  void learn(const Tensor& t, const Tensor& tags) { known_[t.impl()] = {t, tags}; }

  void unite_along(const Tensor& x, int dim, const std::vector<int64_t>& channel);  // task 8.8
  Tensor along(const Shape& shape, int dim, const std::vector<int64_t>& channel) {
    Shape one = Shape::filled(shape.size(), 1);
    one[dim] = static_cast<int64_t>(channel.size());
    return expand(from_data(channel, one, cpu), shape).contiguous();
  }
  // Task 8.8.
  Tensor product(const Tensor& x, int dim, const Tensor& w, const Tensor& bias, const Shape& out);
  Tensor united(const Tensors& tags, const Shape& shape);  // task 8.8
  // The elements i and i + half of each vector are one channel, since each result needs both.
  Tensor pairs(const Tensor& x, int64_t half) {
    const Tensor first = slice(x, -1, 0, half), second = slice(x, -1, half, 2 * half);
    const Tensor both = united({first, second}, first.shape());
    return cat({both, both, slice(x, -1, 2 * half)}, -1);
  }
  Tensor heads(const Tensors& in, const Shape& out, int head_dim, int out_head_dim);  // task 8.8
  // Packed QKV [B, T, (H + 2 G) D], the queries first: the same groups as with separate tensors.
  Tensor joined_heads(const Tensor& qkv, const Shape& out, int64_t H) {
    const int64_t B = out[0], T = out[1], D = H == 0 ? 0 : out[2] / H;
    if (qkv.numel() == 0 || D == 0) return zeros(out, DType::i64, cpu);
    const Tensor all = qkv.reshape({B, T, qkv.size(2) / D, D});
    const int64_t G = (all.size(2) - H) / 2;
    return heads({all.slice(2, 0, H), all.slice(2, H, H + G), all.slice(2, H + G, H + 2 * G)}, {B, T, H, D},
                 2, 2)
        .reshape(out);
  }

  inline void after(const PrimitiveBase& op, const Tensors& inputs, const Tensors& outputs, Cost) override;

  struct Known {
    Tensor tensor, tags;  // the tensor keeps its address from being used again
  };
  std::map<const void*, Owner> owners_;  // by storage
  std::map<const void*, Known> known_;   // by tensor
  std::vector<std::pair<ChannelMember, int64_t>> order_;
  std::vector<int64_t> parent_;
  std::vector<char> pinned_;
  std::set<std::string> unknown_;
};

inline void ChannelGraph::after(const PrimitiveBase& op, const Tensors& in, const Tensors& out, Cost) {
  OpObserver*& current = op_observer();
  OpObserver* const self = std::exchange(current, nullptr);  // the ops below are on tags
  const std::string_view name = op.name();
  const Shape& shape = out[0].shape();
  backend::PointwiseStep function;
  const bool pointwise = op.pointwise(function);
  const auto is = [&](auto... names) { return ((name == names) || ...); };
  Tensor tags;
  if (is("linear", "linear_activation", "linear_residual")) {
    tags = product(tags_of(in[0]), -1 + in[0].rank(), in[1], in[2], shape);
    if (name == "linear_residual") tags = united({tags, tags_of(in[3])}, shape);
  } else if (name == "mlp") {
    const Tensor hidden = product(tags_of(in[0]), 1, in[1], in[2], {in[0].size(0), in[1].size(0)});
    tags = product(hidden, 1, in[3], in[4], shape);
  } else if (name == "conv2d") {
    tags = product(tags_of(in[0]), 1, in[1], in[2], shape);
  } else if (name == "batch_norm_infer") {
    tags = tags_of(in[0]);
    for (size_t i = 1; i < in.size(); ++i)
      if (auto* const own = tags_along(in[i], 0)) unite_along(tags, 1, *own);
  } else if ((pointwise && function.operands() == 1) || is("dropout")) {
    tags = tags_of(in[0]);
  } else if (pointwise && function.operands() == 2) {
    tags = united({tags_of(in[0]), tags_of(in[1])}, shape);
  } else if (name == "bias_activation") {
    tags = tags_of(in[0]);
    if (auto* const own = tags_along(in[1], 0)) unite_along(tags, in[0].rank() - 1, *own);
  } else if (name == "rotate_pairs") {
    tags = pairs(tags_of(in[0]), in[1].size(1));
  } else if (is("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d")) {
    const Tensor first = tags_of(in[0]).slice(2, 0, 1).slice(3, 0, 1);
    tags = expand(first, shape).contiguous();
  } else if (name == "scaled_dot_product_attention" && in.size() == 3) {
    tags = heads({tags_of(in[0]), tags_of(in[1]), tags_of(in[2])}, shape, 1, 2);
  } else if (name == "joined_attention" && in.size() == 1) {
    tags = joined_heads(tags_of(in[0]), shape, out[1].size(1));
  } else if (is("reshape", "permute", "slice", "region", "cat", "expand", "flip", "unbind")) {
    Tensors given;
    for (const Tensor& t : in) given.push_back(tags_of(t));
    const Tensors moved = execute(op, given, Loc::current());
    for (size_t i = 0; i < out.size(); ++i) learn(out[i], moved[i].contiguous());
    current = self;
    return;
  } else {
    for (const Tensor& t : in)
      if (t.defined()) pin_all(tags_of(t));
    unknown_.insert(std::string(name));
    tags = zeros(shape, DType::i64, cpu);
  }
  learn(out[0], tags.is_contiguous() ? tags : tags.contiguous());
  for (size_t i = 1; i < out.size(); ++i) learn(out[i], zeros(out[i].shape(), DType::i64, cpu));
  current = self;
}

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/pruning/groups.hpp>
