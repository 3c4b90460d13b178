// Derivatives of in-place writes to a view.
//
// They are made of operations, so that they can be differentiated again and captured. A base has no gaps in
// memory, but its dimensions may be in any order there, so gradients are first put into the base's order.
#pragma once

#include <tinytorch/tensor/fill.hpp>
#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/primitive.hpp>

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

namespace vjp {

// A view of a base that has no gaps in memory: `offset` counts from the base's first element.
struct Region {
  Shape base_shape;
  Strides base_strides;
  Shape shape;
  Strides strides;
  int64_t offset = 0;
};

inline Tensor region_in(const Tensor& t, const Region& at) {
  return alias(t, at.shape, at.strides, t.offset() + at.offset);
}

// The base's dimensions in the order of their strides, the largest first.
inline Dims memory_order(const Region& at) {
  Dims order;
  for (int d = 0; d < at.base_shape.size(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return at.base_strides[static_cast<int>(a)] > at.base_strides[static_cast<int>(b)];
  });
  return order;
}
// The elements of g, which has the base's shape, as a vector in the order of the base's memory; and back. A
// vector may be one element that is repeated, as an expanded gradient is, so it is made contiguous.
inline Tensor to_memory(const Tensor& g, const Region& at) {
  return tinytorch::reshape(tinytorch::permute(g, memory_order(at)), {at.base_shape.numel()}).contiguous();
}
inline Tensor from_memory(const Tensor& memory, const Region& at) {
  const Dims order = memory_order(at);
  Shape shape = at.base_shape;
  Dims inverse = order;
  for (int d = 0; d < order.size(); ++d) {
    shape[d] = at.base_shape[static_cast<int>(order[d])];
    inverse[static_cast<int>(order[d])] = d;
  }
  return tinytorch::permute(tinytorch::reshape(memory, shape), inverse);
}

inline Tensors write_region(const Tensor& g, const Region& at);
inline Tensor region(const Tensor& g, const Region& at);

}  // namespace vjp

// The region of a base, as a view.
struct RegionOf final : Primitive<RegionOf> {
  static constexpr const char* kName = "region";
  vjp::Region at;
  explicit RegionOf(const vjp::Region& r) : at(r) {}
  Specs infer(const Tensors& in, Loc) const override { return {{at.shape, in[0].dtype()}}; }
  bool is_view() const override { return true; }
  void run(const Tensors&, Tensors&) const override {}
  Tensor view(const Tensor& x) const override { return vjp::region_in(x, at); }
  Tensors vjp(const Saved&, const Tensors& g) const override { return {vjp::region(g[0], at)}; }
};

// The memory of a base, with zeros in the region.
struct EraseRegion final : Primitive<EraseRegion> {
  static constexpr const char* kName = "write_region_grad";
  vjp::Region at;
  explicit EraseRegion(const vjp::Region& r) : at(r) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], copy(out[0].view_of(), in[0].view_of()));
    Tensor inside = vjp::region_in(out[0], at);
    fill_values(inside, 0);
  }
  Tensors vjp(const Saved&, const Tensors& g) const override {
    return {apply(EraseRegion(at), {g[0].contiguous()})};
  }
};

// The memory of a base that is 0 outside of the region, whose elements are given.
struct FillRegion final : Primitive<FillRegion> {
  static constexpr const char* kName = "region_grad";
  vjp::Region at;
  explicit FillRegion(const vjp::Region& r) : at(r) {}
  Specs infer(const Tensors& in, Loc) const override {
    return {{Shape{at.base_shape.numel()}, in[0].dtype()}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    fill_values(out[0], 0);
    TT_KERNEL(out[0], copy(vjp::region_in(out[0], at).view_of(), in[0].view_of()));
  }
  Tensors vjp(const Saved&, const Tensors& g) const override {
    return {apply(RegionOf(at), {g[0].contiguous()}).clone()};
  }
};

namespace vjp {

// y = base with the region replaced by values: the gradient of the base is 0 in the region, whose gradients
// belong to the values.
inline Tensors write_region(const Tensor& g, const Region& at) {
  const Tensor memory = to_memory(g, at);
  return {from_memory(apply(EraseRegion(at), {memory}), at), apply(RegionOf(at), {memory}).clone()};
}

// y = the region of the base: all other elements have the gradient 0.
inline Tensor region(const Tensor& g, const Region& at) {
  return from_memory(apply(FillRegion(at), {g}), at);
}

}  // namespace vjp
}  // namespace tinytorch::inline TT_BUILD
#endif
