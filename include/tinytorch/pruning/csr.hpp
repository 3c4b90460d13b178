// CsrMatrix: a sparse matrix [N, K] as numbers with their columns, row by row ("compressed sparse rows").
//
// Columns take 16 bits if K <= 65536, and 32 otherwise: 6 or 8 bytes for an f32, so that the format is
// smaller than the dense one from 33 or 50 % zeros on. It suits very sparse matrices, and products with many
// columns, where reading an index is little work beside the row that it selects.
#pragma once

#include <tinytorch/backend/sparse_view.hpp>
#include <tinytorch/pruning/sparse_parts.hpp>

namespace tinytorch::inline TT_BUILD {

inline constexpr int64_t kNarrowColumns = 65536;  // columns that 16 bits can number

class CsrMatrix {
 public:
  CsrMatrix() = default;
  // values [nnz] of any dtype; indices u8 [nnz, 2] (uint16_t) for K <= 65536, else i32 [nnz]; offsets i64 [N
  // + 1], as backend::CsrView describes them. Throws TT-PRUNE-05 unless they fit together: columns must
  // ascend.
  CsrMatrix(Tensor values, Tensor indices, Tensor offsets, int64_t columns, TT_LOC)
      : values_(std::move(values)),
        indices_(std::move(indices)),
        offsets_(std::move(offsets)),
        columns_(columns),
        rows_(offsets_.defined() && offsets_.rank() == 1 ? offsets_.size(0) - 1 : 0) {
    const bool vector = values_.defined() && values_.rank() == 1 && values_.is_contiguous() && columns >= 0 &&
                        columns <= INT32_MAX;
    const bool fits = vector &&
                      (narrow() ? pruning::is_part(indices_, DType::u8, {values_.numel(), 2})
                                : pruning::is_part(indices_, DType::i32, {values_.numel()})) &&
                      pruning::are_offsets(offsets_, rows_, values_.numel(), loc) && ascend(loc);
    pruning::require_part(fits, "CSR",
                          "values [nnz], indices u8 [nnz, 2] or, for K > 65536, i32 [nnz], which ascend in a "
                          "row and are below K, offsets i64 [N + 1]",
                          loc);
  }

  bool defined() const { return values_.defined(); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t nnz() const { return values_.numel(); }
  bool narrow() const { return columns_ <= kNarrowColumns; }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }
  const Tensor& values() const { return values_; }
  const Tensor& indices() const { return indices_; }
  const Tensor& offsets() const { return offsets_; }
  int64_t bytes() const {
    return pruning::bytes_of_part(values_) + pruning::bytes_of_part(indices_) +
           pruning::bytes_of_part(offsets_);
  }
  CsrMatrix to(Device device, TT_LOC) const {
    CsrMatrix moved = *this;
    moved.values_ = values_.to(device, loc), moved.indices_ = indices_.to(device, loc);
    moved.offsets_ = offsets_.to(device, loc);
    return moved;
  }
  // The matrix [N, K] on the same device.
  Tensor dense(TT_LOC) const {
    const CsrMatrix here = to(cpu, loc);
    const Tensor out = zeros({rows_, columns_}, dtype(), cpu, loc);
    const backend::CsrView v = here.view();
    const size_t element = size_of(dtype());
    for (int64_t n = 0; n < rows_; ++n) {
      for (int64_t i = v.offsets[n]; i < v.offsets[n + 1]; ++i) {
        std::memcpy(static_cast<uint8_t*>(out.raw()) +
                        static_cast<size_t>(n * columns_ + static_cast<int64_t>(v.column(i))) * element,
                    static_cast<const uint8_t*>(v.values) + static_cast<size_t>(i) * element, element);
      }
    }
    return out.to(device(), loc);
  }
  backend::CsrView view() const {
    return {values_.view_of().data,
            indices_.view_of().data,
            static_cast<const int64_t*>(offsets_.view_of().data),
            dtype(),
            narrow(),
            rows_,
            columns_,
            nnz()};
  }

 private:
  bool ascend(Loc loc) const {
    const Tensor indices = indices_.to(cpu, loc), offsets = offsets_.to(cpu, loc);
    const backend::CsrView v{nullptr,  indices.raw(), offsets.data<int64_t>(), dtype(), narrow(), rows_,
                             columns_, nnz()};
    for (int64_t n = 0; n < rows_; ++n) {
      for (int64_t i = v.offsets[n]; i < v.offsets[n + 1]; ++i) {
        if (static_cast<int64_t>(v.column(i)) >= columns_) return false;
        if (i > v.offsets[n] && v.column(i) <= v.column(i - 1)) return false;
      }
    }
    return true;
  }

  Tensor values_, indices_, offsets_;
  int64_t columns_ = 0, rows_ = 0;
};

// w [N, K] of any dtype -> the elements that are not 0 (NaN is kept), on the device of w.
inline CsrMatrix to_csr(const Tensor& w, TT_LOC) {
  const NoGrad no_grad;
  const pruning::KeptElements from("to_csr", w, loc);
  const int64_t nnz = from.count();
  const bool narrow = from.K <= kNarrowColumns;
  const Tensor values = empty({nnz}, w.dtype(), cpu, loc),
               indices = narrow ? empty({nnz, 2}, DType::u8, cpu, loc) : empty({nnz}, DType::i32, cpu, loc),
               offsets = zeros({from.N + 1}, DType::i64, cpu, loc);
  const size_t element = from.element();
  int64_t count = 0;
  for (int64_t n = 0; n < from.N; ++n) {
    for (int64_t k = 0; k < from.K; ++k) {
      if (!from.at(n, k)) continue;
      std::memcpy(static_cast<uint8_t*>(values.raw()) + static_cast<size_t>(count) * element,
                  from.bytes() + static_cast<size_t>(n * from.K + k) * element, element);
      if (narrow)
        static_cast<uint16_t*>(indices.raw())[count] = static_cast<uint16_t>(k);
      else
        indices.data<int32_t>()[count] = static_cast<int32_t>(k);
      ++count;
    }
    offsets.data<int64_t>()[n + 1] = count;
  }
  return CsrMatrix(values, indices, offsets, from.K, loc).to(w.device(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
