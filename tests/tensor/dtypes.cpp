// The dtypes of every tensor function, on the tests' device: a call with operands of a dtype computes, with
// its gradients, if the function's entry in API.md has that dtype, and is refused with a TT-DTYPE code
// otherwise. The calls are the rows of OP with their golden inputs (support/cases), which are converted to
// the dtype, and the rows below for functions that are composed of others.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <support/cases/all.hpp>
#include <support/few.hpp>
#include <support/golden_ops.hpp>
#include <tinytorch/tensor/ops/linalg.hpp>
#include <tinytorch/tinytorch.hpp>
#include <utility>
#include <vector>

using namespace tinytorch;

namespace {

// The matrix in the images v, [4, 4].
Tensor matrix(const Tensor& v) { return select(select(v, 0, 0), 0, 0); }
// v as volumes [1, 4, 4, 2, 2], and as their filters.
Tensor volumes(const Tensor& v) { return reshape(v, {1, 4, 4, 2, 2}); }
Tensor filters(const Tensor& v) { return reshape(v, {4, 4, 1, 2, 2}); }

// x and y are matrices [2, 6] and v is [1, 4, 4, 4], of the dtype of the case; z is i64 [2, 6] and u is bool
// [2, 6].
// clang-format off
std::vector<cases::OpCase> created() {
  return {
      OP("", full({2}, 1, x.dtype())), OP("", zeros({2}, x.dtype())), OP("", ones({2}, x.dtype())),
      OP("", arange(0, 2, 1, x.dtype())), OP("", linspace(0, 1, 2, x.dtype())), OP("", eye(2, x.dtype())),
      OP("", rand({2}, x.dtype())), OP("", uniform(0, 1, {2}, x.dtype())), OP("", randn({2}, x.dtype())),
      OP("", randint(0, 2, {2}, x.dtype())), OP("", bernoulli(0.5, {2}, x.dtype())), OP("", randperm(2, x.dtype())),
      OP("", scalar_like(1, x)), OP("", rand_like(x)), OP("", randn_like(x)), OP("", cast(z, x.dtype())),
  };
}
std::vector<cases::OpCase> composed() {
  return {
      OP("", nonzero(x)), OP("", masked_select(x, u)), OP("", index_put(x, select(z, 0, 0).slice(0, 0, 2), select(y, 0, 0))), OP("", index_put(x, u, select(select(y, 0, 0), 0, 0))),
      OP("", scatter(x, 1, z, y)), OP("", scatter(x, 1, z, 1)), OP("", pad(x, {{1, 0}, {0, 1}})), OP("", masked_fill(x, u, 1)), OP("", index_add(x, 1, select(z, 0, 0), y)),
      OP("", index_fill(x, 1, select(z, 0, 0), 1)), OP("", take_along_dim(x, z, 1)), OP("", bincount(select(z, 0, 0), select(x, 0, 0))),
      OP("", isin(x, y)), OP("", searchsorted(y, x)), OP("", bucketize(x, select(y, 0, 0))),
      OP("", nll_loss(x, select(z, 1, 0))), OP("", kl_div(x, y)), OP("", binary_cross_entropy(x, x)),
      OP("", binary_cross_entropy_with_logits(x, y)), OP("", binary_cross_entropy_with_logits(x, y, {.weight = y})),
      OP("", cosine_similarity(x, y)), OP("", cosine_embedding_loss(x, y, select(y, 1, 0))), OP("", triplet_margin_loss(x, y, neg(y))),
      OP("", eq(x, y)), OP("", ne(x, y)), OP("", lt(x, y)), OP("", le(x, y)), OP("", gt(x, y)), OP("", ge(x, y)), OP("", logical_and(x, y)), OP("", logical_or(x, y)),
      OP("", exp2(x)), OP("", log2(x)), OP("", log10(x)), OP("", tan(x)), OP("", sinh(x)), OP("", cosh(x)), OP("", atanh(x)),
      OP("", trunc(x)), OP("", frac(x)), OP("", clamp_min(x, 1)), OP("", clamp_max(x, 1)), OP("", lerp(x, y, y)), OP("", lerp(x, y, 0.5)),
      OP("", addcmul(x, y, y)), OP("", addcdiv(x, y, y)), OP("", logaddexp(x, y)), OP("", logical_xor(x, y)), OP("", nan_to_num(x)),
      OP("", isclose(x, y)), OP("", allclose(x, y) ? x : y), OP("", equal(x, y) ? x : y),
      OP("", relu6(x)), OP("", hardtanh(x)), OP("", hardsigmoid(x)), OP("", selu(x)), OP("", celu(x)), OP("", softsign(x)), OP("", logsigmoid(x)),
      OP("", tanhshrink(x)), OP("", softshrink(x)), OP("", softshrink(x, 1)), OP("", hardshrink(x)), OP("", hardshrink(x, 1)), OP("", threshold(x, 1, 0)),
      OP("", softmin(x)), OP("", glu(x)), OP("", prelu(x, select(y, 0, 0).slice(0, 0, 1))),
      OP("", amax(x)), OP("", amin(x)), OP("", count_nonzero(x)), OP("", nansum(x)), OP("", nanmean(x)), OP("", cumprod(x, 1)),
      OP("", vector_norm(x, 1, {}, false, Loc::current())), OP("", vector_norm(x, 3, {}, false, Loc::current())), OP("", normalize(x)),
      OP("", mm(x, transpose(y, 0, 1))), OP("", mv(x, select(y, 0, 0))), OP("", bmm(select(v, 1, 0), select(v, 1, 1))), OP("", dot(select(x, 0, 0), select(y, 0, 0))),
      OP("", addmm(matrix(v), matrix(v), matrix(v))), OP("", tensordot(x, y)), OP("", tile(x, {2})), OP("", repeat_interleave(x, 2)),
      OP("", movedim(x, 0, 1)), OP("", swapaxes(x, 0, 1)), OP("", ravel(x)), OP("", broadcast_to(x, {2, 2, 6})), OP("", expand_as(x, y)),
      OP("", reshape_as(x, y)), OP("", unflatten(x, 1, {2, 3})), OP("", hstack({x, y})), OP("", vstack({x, y})), OP("", hstack(x, y)), OP("", vstack(x, y)),
      OP("", fliplr(x)), OP("", flipud(x)), OP("", meshgrid({select(x, 0, 0), select(y, 0, 0)})), OP("", pixel_shuffle(v, 2)), OP("", pixel_unshuffle(v, 2)),
      OP("", diff(x)), OP("", argsort(x)),
      OP("", conv1d(select(v, 0, 0), select(v, 0, 0))), OP("", conv_transpose2d(v, reshape(v, {4, 4, 2, 2}))), OP("", conv_transpose1d(select(v, 0, 0), select(v, 0, 0))),
      OP("", floor_divide(x, y)), OP("", remainder(x, y)), OP("", fmod(x, y)), OP("", floor_divide(x, 2)), OP("", remainder(x, 2)), OP("", fmod(x, 2)),
      OP("", rotate_pairs(v, {.cos = zeros({4, 2}), .sin = zeros({4, 2})})),
      OP("", interpolate(v, {.scale_factor = 2})), OP("", interpolate(v, {.scale_factor = 2, .mode = Interpolation::bilinear})),
      OP("", unique(x).values), OP("", unique(x, 0).values), OP("", unique_consecutive(x).values), OP("", multinomial(x, 1)),
      OP("", median(x)), OP("", median(x, 1)), OP("", kthvalue(x, 2)), OP("", quantile(x, 0.5)), OP("", quantile(x, {0.25, 0.75})),
      OP("", cov(x)), OP("", corrcoef(x)), OP("", cdist(x, y)), OP("", cdist(x, y, 1)), OP("", histc(x, 2)), OP("", histogram(x, 2).counts),
      OP("", conv3d(volumes(v), filters(v))), OP("", max_pool3d(volumes(v))), OP("", avg_pool3d(volumes(v))), OP("", adaptive_avg_pool3d(volumes(v), 1)),
      OP("", max_pool1d(select(v, 0, 0))), OP("", avg_pool1d(select(v, 0, 0))), OP("", adaptive_max_pool2d(v, 2, 2)),
      OP("", linalg::solve(matrix(v), matrix(v))), OP("", linalg::inverse(matrix(v))), OP("", linalg::inv(matrix(v))), OP("", linalg::det(matrix(v))),
      OP("", linalg::cholesky(matrix(v))), OP("", linalg::eigh(matrix(v)).values), OP("", linalg::qr(matrix(v)).R), OP("", linalg::svd(matrix(v)).S),
      OP("", linalg::svdvals(matrix(v))), OP("", linalg::pinv(matrix(v))), OP("", linalg::matrix_norm(matrix(v), 1)), OP("", linalg::matrix_norm(matrix(v))),
  };
}
// Operators, whose rows have names.
std::vector<std::pair<const char*, cases::OpCase>> operators() {
  return {
      {"operator+", OP("", x + y)}, {"operator+", OP("", x + 1)}, {"operator+", OP("", 1 + x)}, {"operator-", OP("", -x)},
      {"operator-", OP("", x - y)}, {"operator-", OP("", x - 1)}, {"operator-", OP("", 1 - x)},
      {"operator*", OP("", x * y)}, {"operator*", OP("", x * 1)}, {"operator*", OP("", 1 * x)},
      {"operator/", OP("", x / y)}, {"operator/", OP("", x / 1)}, {"operator/", OP("", 1 / y)},
      {"operator%", OP("", x % y)}, {"operator%", OP("", x % 1)},
      {"operator==", OP("", x == y)}, {"operator==", OP("", x == 1)}, {"operator==", OP("", 1 == x)},
      {"operator!=", OP("", x != y)}, {"operator!=", OP("", x != 1)}, {"operator!=", OP("", 1 != x)},
      {"operator<", OP("", x < y)}, {"operator<", OP("", x < 1)}, {"operator<", OP("", 1 < x)},
      {"operator<=", OP("", x <= y)}, {"operator<=", OP("", x <= 1)}, {"operator<=", OP("", 1 <= x)},
      {"operator>", OP("", x > y)}, {"operator>", OP("", x > 1)}, {"operator>", OP("", 1 > x)},
      {"operator>=", OP("", x >= y)}, {"operator>=", OP("", x >= 1)}, {"operator>=", OP("", 1 >= x)},
      {"operator!", OP("", !x)}, {"operator&&", OP("", x && y)}, {"operator||", OP("", x || y)},
      {"operator~", OP("", ~x)}, {"operator&", OP("", x & y)}, {"operator|", OP("", x | y)}, {"operator^", OP("", x ^ y)},
      {"operator&=", OP("", clone(x) &= y)}, {"operator|=", OP("", clone(x) |= y)}, {"operator^=", OP("", clone(x) ^= y)},
      {"operator+=", OP("", clone(x) += y)}, {"operator+=", OP("", clone(x) += 1)}, {"operator-=", OP("", clone(x) -= y)}, {"operator-=", OP("", clone(x) -= 1)},
      {"operator*=", OP("", clone(x) *= y)}, {"operator*=", OP("", clone(x) *= 1)}, {"operator/=", OP("", clone(x) /= y)}, {"operator/=", OP("", clone(x) /= 1)},
      {"operator%=", OP("", clone(x) %= y)}, {"operator%=", OP("", clone(x) %= 1)},
      {"operator+=", OP("", [&] { Tensor t = clone(x); t[u] += y[u]; t[u] += 1; return t; }())},
      {"operator-=", OP("", [&] { Tensor t = clone(x); t[u] -= y[u]; t[u] -= 1; return t; }())},
      {"operator*=", OP("", [&] { Tensor t = clone(x); t[u] *= y[u]; t[u] *= 1; return t; }())},
      {"operator/=", OP("", [&] { Tensor t = clone(x); t[u] /= y[u]; t[u] /= 1; return t; }())},
      {"write_elements", OP("", [&] { const Tensor t = clone(x); write_elements("write", t, y, Loc::current()); return t; }())},
  };
}
// clang-format on

// A call, and its operands in f32 or with the dtype that they always have.
struct Row {
  cases::Call call;
  Tensors operands;
};
using Rows = std::map<std::string, std::vector<Row>>;  // by the function's name

Tensors operands_of_rows() {
  std::vector<float> images;
  for (int k = 0; k < 64; ++k)  // a definite matrix, with different eigenvalues, then ones
    images.push_back(k >= 16 ? 1.0f : k % 5 == 0 ? 2 + static_cast<float>(k) / 5 : 0.25f);
  const Tensor x =
      from_data({0.5f, 1.0f, 0.25f, 1.0f, 0.75f, 1.0f, 1.0f, 0.5f, 0.25f, 0.75f, 0.5f, 1.0f}, {2, 6});
  const Tensor z = from_data(std::vector<int64_t>{0, 1, 2, 3, 4, 5, 1, 0, 3, 2, 5, 4}, {2, 6});
  return {x, ones({2, 6}), z, x > 0.5, from_data(images, {1, 4, 4, 4})};
}

bool has_floating(const Tensors& operands) {
  return std::any_of(operands.begin(), operands.end(),
                     [](const Tensor& x) { return is_floating(x.dtype()); });
}

Rows rows_of_all() {
  const golden::GoldenCases golden = golden::load_ops();
  Rows rows;
  for (const cases::OpCase& c : cases::all_calls()) {
    const auto found = golden.find(golden::without_spaces(c.text));
    if (!c.golden || found == golden.end()) continue;
    const auto of_f32 = found->second.find("f32");
    const golden::Golden& roles = (of_f32 == found->second.end() ? found->second.begin() : of_f32)->second;
    Tensors operands;
    for (const char* name : {"x", "y", "z", "u", "v"}) {
      if (const auto role = roles.find(name); role != roles.end()) operands.push_back(role->second);
    }
    if (operands.size() == 1 || has_floating(operands)) rows[c.name].push_back({c.call, operands});
  }
  for (const cases::OpCase& c : created()) rows[c.name].clear();  // golden calls have the default dtype
  const Tensors operands = operands_of_rows();
  for (const auto& list : {created(), composed()}) {
    for (const cases::OpCase& c : list) {
      const size_t scope = c.name.rfind(':');
      rows[scope == std::string::npos ? c.name : c.name.substr(scope + 1)].push_back({c.call, operands});
    }
  }
  for (const auto& [name, c] : operators()) rows[name].push_back({c.call, operands});
  return rows;
}

// An entry of API.md.
struct Entry {
  std::set<DType> dtypes;  // none: the entry does not say
  bool has_tensors = false, has_indices = false;
};
using Entries = std::map<std::string, std::vector<Entry>>;  // by the function's name; overloads

// "numbers, indices i64" -> the numbers; "indices i64" alone -> i64
std::set<DType> dtypes_named(const std::string& text) {
  const std::map<std::string, std::vector<DType>> groups{
      {"floating", cases::kFloating}, {"numbers", cases::kNumbers}, {"all", cases::kAnything}};
  std::set<DType> found;
  std::istringstream words(text);
  for (std::string word; std::getline(words >> std::ws, word, ',');) {
    if (const auto group = groups.find(word); group != groups.end())
      found.insert(group->second.begin(), group->second.end());
    for (const DType t : cases::kAnything)
      if (word == name_of(t)) found.insert(t);
  }
  if (found.empty() && text == "indices i64") found.insert(i64);
  return found;
}

Entries entries_of_page() {
  Entries all;
  std::istringstream page(golden::read_all("include/tinytorch/API.md"));
  bool functions = false, wanted = false;
  for (std::string line, notes; std::getline(page, line);) {
    if (line.starts_with("## ")) functions = line == "## Tensor functions" || line == "## Linear algebra";
    if (line.starts_with("##")) wanted = functions || line.starts_with("### [tensor/operators.hpp]");
    const size_t open = line.find('('), name = line.rfind(' ', open) + 1, end = line.find('`', open);
    if (!wanted || !line.starts_with("- `") || end == std::string::npos) continue;
    Entry entry;
    for (const char* type : {"Tensor", "DType", "Selected"})
      entry.has_tensors |= line.substr(open, end - open).find(type) != std::string::npos;
    if (line.ends_with("\\") && std::getline(page, notes)) {
      if (const size_t at = notes.find("Dtypes: "); at != std::string::npos) {
        const std::string text = notes.substr(at + 8, notes.find('.', at) - at - 8);
        entry.dtypes = dtypes_named(text);
        entry.has_indices = text.find("indices i64") != std::string::npos;
      }
    }
    if (entry.has_tensors) all[line.substr(name, open - name)].push_back(entry);
  }
  return all;
}

// The operands of a row in dtype t, on the default device. Floating operands are converted, or a single one.
Tensors converted(const Row& row, DType t) {
  const bool single = row.operands.size() == 1;
  Tensors all;
  for (const Tensor& operand : row.operands) {
    Tensor x = operand.to(default_device()).clone();
    if (is_floating(x.dtype()) || single) x = x.to(t);
    if (is_floating(x.dtype())) x.requires_grad_();
    all.push_back(x);
  }
  return all;
}

// The values of all results and gradients.
std::vector<double> values_of(const cases::Call& call, const Tensors& in) {
  default_generator() = Generator(1);
  const auto at = [&](size_t i) { return i < in.size() ? in[i] : Tensor(); };
  const Tensors outputs = call(at(0), at(1), at(2), at(3), at(4)).list;
  std::vector<double> values;
  const auto append = [&](const Tensor& t) {
    const std::vector<double> more = t.detach().to_vector<double>();
    values.insert(values.end(), more.begin(), more.end());
  };
  for (size_t k = 0; k < outputs.size(); ++k) {
    append(outputs[k]);
    if (outputs[k].requires_grad()) outputs[k].backward(ones_like(outputs[k]), k + 1 < outputs.size());
  }
  for (const Tensor& t : in)
    if (t.grad().defined()) append(t.grad());
  return values;
}

// Makes the CPU the default device for its lifetime.
struct OnCpu {
  Device before = default_device();
  OnCpu() { set_default_device(cpu); }
  ~OnCpu() { set_default_device(before); }
};
// The values that the CPU computes, with the same random numbers.
std::vector<double> values_on_cpu(const Row& row, DType t) {
  const OnCpu scope;
  return values_of(row.call, converted(row, t));
}

// A call of a promised dtype computes what the CPU computes; it may only refuse a number of the call that the
// dtype cannot hold. Returns true if it computes.
bool computes(const Row& row, DType t) {
  try {
    const std::vector<double> values = values_of(row.call, converted(row, t));
    if (default_device() == cpu) return true;
    const std::vector<double> expected = values_on_cpu(row, t);
    REQUIRE(values.size() == expected.size());
    const double tolerance = is_16_bit(t) ? 16 * epsilon_of(t) : 1000 * epsilon_of(t);
    for (size_t i = 0; i < values.size(); ++i) {
      const bool same = values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]));
      if (!same) CHECK(std::abs(values[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
    }
    return true;
  } catch (const Error& e) {
    CHECK_MESSAGE(e.code() == "TT-DTYPE-07", e.what());
    return false;
  }
}

// True if a rule refuses the call, before a kernel is called: the message then names the caller's line.
bool is_refused(const cases::Call& call, const Tensors& operands) {
  try {
    values_of(call, operands);
    return false;
  } catch (const Error& e) {
    const std::string message = e.what();
    CAPTURE(message);
    CHECK(e.code().starts_with("TT-DTYPE-"));
    CHECK(message.find("tests/") != std::string::npos);
    return true;
  }
}

}  // namespace

TEST_CASE("the entry of every tensor function has its dtypes, and every tensor function is called here") {
  const Rows rows = rows_of_all();
  const Entries entries = entries_of_page();
  CHECK(entries.size() > 250);
  for (const auto& [function, overloads] : entries) {
    const std::string name = function;  // clang 14 cannot capture a structured binding in a lambda
    INFO(name);
    CHECK(rows.contains(name));
    for (const Entry& e : overloads) {
      CHECK(!e.dtypes.empty());
      CHECK(e.dtypes == overloads[0].dtypes);
    }
  }
}

TEST_CASE("every tensor function computes with each dtype of its entry, and its rule refuses all others") {
  const Entries entries = entries_of_page();
  for (const auto& [function, rows] : rows_of_all()) {
    const std::string name = function;
    const auto found = entries.find(name);
    if (found == entries.end()) continue;  // the golden row of an operator
    for (const DType t : test::some_on_emulator(cases::kAnything, 2)) {
      INFO(name, " ", std::string(name_of(t)));
      const bool promised = found->second[0].dtypes.contains(t);
      bool computed = false;
      for (const Row& row : rows) {
        if (promised) computed |= computes(row, t);
        if (!promised) CHECK(is_refused(row.call, converted(row, t)));
      }
      CHECK(computed == promised);
    }
  }
}

TEST_CASE("functions with indices refuse indices of another dtype than i64") {
  const Rows rows = rows_of_all();
  int count = 0;
  for (const auto& [function, overloads] : entries_of_page()) {
    const std::string name = function;
    if (!overloads[0].has_indices) continue;
    INFO(name);
    ++count;
    bool refused = false;  // another call may have a mask instead
    for (const Row& row : rows.at(name)) {
      Tensors operands = row.operands;
      for (Tensor& t : operands)
        if (t.dtype() == i64) t = t.to(i32);
      refused |= is_refused(row.call, operands);
    }
    CHECK(refused);
  }
  CHECK(count > 10);
}
