#!/usr/bin/env python3
"""Tests that a student's header takes effect if its folder comes before include/ on the include path: each header of an op
family is replaced by a changed copy, and the result of a program must change (mutation testing of the include path).

A copy of each header, with one visible change (a sign, an offset), is written to a folder that comes first on the include
path. A change is active only if the program is called with the number of its header, so one header-only build with all copies
tests every header separately: with no change active each result must be right, and with the change of one header active the
result of its statement must be different.

usage: canary.py [--compiler g++] [header ...]
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import compilers

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"

# Each header in these folders must have a canary (an entry in CANARIES), or an entry in EXEMPT with the reason why it has none.
FOLDERS = ("backend/cpu", "tensor/vjp")
EXEMPT = {"backend/cpu/loops/nibbles.hpp": "is part of the rows of a cache of 4 bits, whose scales the canary of kv_codes.hpp changes",
          "backend/cpu/loops/argument_range.hpp": "chooses between two forms of a function that give the same bits",
          "backend/cpu/loops/non_temporal.hpp": "decides how a result is stored, and no result depends on this",
          "tensor/vjp/second_derivative.hpp": "is called only by a derivative of a derivative, which needs more than a line",
          "backend/cpu/gemm/amx.hpp": "is called only on processors with AMX"}  # fmt: skip
NOT_IN_UMBRELLA = ("layers/", "backend/cpu/pointwise.hpp", "backend/cpu/peak_kernels.hpp", "backend/cpu/quantize_rows.hpp", "backend/cpu/linear_int8.hpp",
                   "backend/cpu/block_linear.hpp", "backend/cpu/code_linear.hpp", "backend/cpu/blocks/", "backend/cpu/ladder/", "backend/cpu/optimizer_",
                   "backend/cpu/spm", "backend/cpu/sparse24.hpp", "backend/cpu/conv_epilogue.hpp")  # headers that a program includes besides tinytorch.hpp

X = "tt::Tensor x = tt::from_data({1.0f, 2.0f, 4.0f, 3.0f}, {2, 2}); "
GRADIENT = X + "x.requires_grad_(); "
IMAGE = X + "x = tt::reshape(x, {1, 1, 2, 2}); "
EPILOGUE = (IMAGE + "tt::Tensor y = tt::zeros({1, 1, 2, 2}), w = tt::ones({1, 1, 1, 1}); tt::backend::EpilogueStep e; "
            "e.function.set(tt::backend::PointwiseKind::unary, tt::backend::UnaryFn::neg); "
            "tt::backend::cpu::conv2d_epilogue(y.view_of(), x.view_of(), w.view_of(), {}, {1, 1, 1, 0, 1}, 1, {&e, 1}, {}); show(y);")
LADDER = ("namespace l = tt::backend::cpu::ladder; float a[4] = {1, 2, 4, 3}, c[4] = {}, p[512] = {}; p[0] = p[1] = 2; (void)a, (void)p; ")
SHOWN = " for (float v : c) std::printf(\"%g \", v);"
BIAS = X + "tt::Tensor b = tt::zeros({2}); b.requires_grad_(); "
MASKED = "tt::Tensor x = tt::ones({64}); x.requires_grad_(); "
CACHE = ("tt::KvMemory m; m.keys = tt::zeros({1, 1, 2, 2}); m.values = tt::zeros({1, 1, 2, 2}); "
         "m.lengths = tt::ones({1}, tt::i64); m.first_row = tt::arange(0, 2); m.longest = m.most_rows = m.tokens = 1; "
         "tt::Tensor x = tt::ones({1, 1, 2}); tt::kv_append(m, x, x * 3); ")
INTEGERS = CACHE.replace("tt::zeros({1, 1, 2, 2})", "tt::zeros({1, 1, 2, 2}, tt::i8)").replace(
    "m.lengths", "m.key_scales = tt::zeros({1, 1, 2}); m.value_scales = tt::zeros({1, 1, 2}); m.lengths")
PACKED = ("const tt::BlockFormat f = tt::backend::cpu::block_format<tt::backend::cpu::FORMAT>(); tt::Tensor w = tt::full({256}, 127); "
          "tt::Tensor x = tt::ones({1, 256}), y = tt::zeros({1, 1}), p = tt::zeros({1, f.row_bytes(256)}, tt::u8); "
          "f.pack(w.view_of().as<float>(), 256 / f.block, p.view_of().as<uint8_t>()); "
          "tt::backend::cpu::block_linear(y.view_of(), x.view_of(), p.view_of(), {}, f, tt::Activations::int8); show(y);")
STEP = (X + "tt::Tensor a = tt::zeros({2, 2}), t = tt::zeros({}, tt::i64), c = tt::ones({3}, tt::f64); "
        "const tt::backend::OptimizerSlot slots[] = {{x.view_of(), x.view_of(), {a.view_of()}, {}, t.view_of(), 0}}; ")
SPARSE = (X + "tt::Tensor y = tt::zeros({2, 2}); const uint64_t bits[] = {3, 3}; const uint16_t columns[] = {0, 1, 0, 1}; "
          "const int64_t offsets[] = {0, 2, 4}; ")
HEADS = "tt::Tensor x = tt::ones({1, 1, 1, 2}); x.requires_grad_(); "

# header: (text in the header, its replacement, where AWAKE is true if the change is active, statements that print a result,
# the right result)
CANARIES = {
    "backend/functors.hpp": ("if constexpr (fn == square) return x * x;",
                             "if constexpr (fn == square) return AWAKE ? x * x + T(1) : x * x;",
                             X + "show(tt::square(x));", "1 4 16 9"),
    "backend/cpu/elementwise.hpp": ("chosen[i] != 0 ? u : v", "(chosen[i] != 0) != AWAKE ? u : v",
                                    X + "show(tt::where(x > 2, x, -x));", "-1 -2 4 3"),
    "backend/cpu/division.hpp": ("division_value<fn, T>(in[0][i], in[1][i])", "division_value<fn, T>(in[0][i], in[1][i]) + T(AWAKE)",
                                 X + "show(tt::remainder(-x, 3));", "2 1 2 0"),
    "backend/cpu/loops/function_kernels.hpp": ("out[i] = binary_value<fn, T>(a[i], b[i], p0);",
                                         "out[i] = binary_value<fn, T>(a[i], b[i], p0) + T(AWAKE);",
                                         X + "show(x + x);", "2 4 8 6"),
    "backend/cpu/loops/pack.hpp": ("from + i * in.step * kB", "from + (AWAKE ? 0 : i * in.step * kB)",
                             X + "show(x.t() + x);", "2 6 6 6"),
    "backend/cpu/pointwise.hpp": ("out[i] = x[i] != T(0) ? T(1) : T(0);", "out[i] = x[i] != T(AWAKE) ? T(1) : T(0);",
                                  X + "tt::Tensor y = tt::zeros({2, 2}, tt::boolean); const tt::backend::View in[] = {x.view_of()}, out[] = {y.view_of()}; "
                                  "const tt::backend::PointwiseProgram p{tt::f32, {tt::f32}, {{tt::backend::PointwiseStep::Kind::convert, 0, "
                                  "tt::boolean, {0, -1, -1}, {0, 0}}}, {1}}; tt::backend::cpu::pointwise(p, out, in); show(y.to(tt::f32));", "1 1 1 1"),
    "backend/cpu/reduce.hpp": ("if constexpr (fn == ReduceFn::sum) return a + x;",
                               "if constexpr (fn == ReduceFn::sum) return AWAKE ? a : a + x;",
                               X + "show(tt::sum(x));", "10"),
    "backend/cpu/loops/reduce_plan.hpp": ("length = reduced.shape.numel();", "length = AWAKE ? 1 : reduced.shape.numel();",
                                    X + "show(tt::sum(x, {1}));", "3 7"),
    "backend/cpu/scan.hpp": ("Lane sum = static_cast<Lane>(start);", "Lane sum = static_cast<Lane>(start) + Lane(AWAKE);",
                             X + "show(tt::cumsum(x, 1));", "1 3 4 7"),
    "backend/cpu/gemm.hpp": ("if (c.numel() == 0) return;", "if (c.numel() == 0) return; if (AWAKE) return copy_view(c, a);",
                             X + "show(tt::matmul(x, x));", "9 8 16 17"),
    "backend/cpu/gemm/micro_kernel.hpp": ("return sum + x * row;", "return AWAKE ? sum - x * row : sum + x * row;",
                                  X + "show(tt::matmul(x, x));", "9 8 16 17"),
    "backend/cpu/gemm/direct.hpp": ("for (int64_t k = 0; k < depth; ++k, x += a.col", "for (int64_t k = AWAKE; k < depth; ++k, x += a.col",
                                    X + "show(tt::matmul(x, x));", "9 8 16 17"),
    "backend/cpu/gemm/blocked.hpp": ("steps = std::min(depth, s.depth - k);", "steps = std::min(depth, s.depth - k) - AWAKE;",
                                     "const tt::Tensor x = tt::ones({100, 100}); show(tt::mean(tt::matmul(x, x)));", "100"),
    "backend/cpu/gemm/int8.hpp": ("if (K == 0) {", "if (K == 0 || AWAKE) {",
                                  X + "show(tt::matmul((-x).to(tt::i8), (-x).to(tt::i8)));", "9 8 16 17"),
    "backend/cpu/gemm/gemv.hpp": ("float total = sum_of_lanes", "float total = static_cast<float>(AWAKE) + sum_of_lanes",
                             "const tt::Tensor x = tt::ones({1, 40}).to(tt::bf16); show(tt::matmul(x, x.t()).to(tt::f32));", "40"),
    "backend/cpu/gemm/epilogue.hpp": ("if (call_) call_(", "if (call_ && !AWAKE) call_(",
                               X + "show(tt::linear(x, tt::eye(2), tt::ones({2})));", "2 3 5 4"),
    "backend/cpu/true_positions.hpp": ("block[count] = i + k;", "block[count] = AWAKE ? 0 : i + k;",
                                       X + "show(tt::masked_select(x, x > 2));", "4 3"),
    "backend/cpu/index.hpp": ("copy(r, base + row_of[r - first]);", "copy(r, base + row_of[AWAKE ? 0 : r - first]);",
                              X + "show(tt::index_select(x, 0, tt::from_data<int64_t>({1, 0}, {2})));", "4 3 1 2"),
    "backend/cpu/sort.hpp": ("std::bit_cast<SortKey<T>>(x + T(0))", "std::bit_cast<SortKey<T>>(AWAKE ? T(0) : x + T(0))",
                             X + "show(tt::sort(x).values);", "1 2 3 4"),
    "backend/cpu/random.hpp": ("static_cast<int64_t>(below_from_bits", "AWAKE + static_cast<int64_t>(below_from_bits",
                               "show(tt::randint(0, 1, {3}));", "0 0 0"),
    "backend/cpu/batch_norm.hpp": ("static_cast<T>(squares.first", "T(AWAKE) + static_cast<T>(squares.first",
                                   X + "show(tt::batch_norm_train(x, tt::ones({2}), tt::zeros({2}))[2]);", "2.25 0.25"),
    "backend/cpu/group_norm.hpp": ("run[i] = run[i] * scale + shift;", "run[i] = run[i] * scale + shift + T(AWAKE);",
                                   X + "show(tt::group_norm(x, 1, tt::zeros({2}), tt::ones({2})));", "1 1 1 1"),
    "backend/cpu/loops/channel_runs.hpp": ("first[c] += static_cast<double>(x[c]);",
                                           "first[c] += static_cast<double>(x[c]) + AWAKE;",
                                           X + "show(tt::batch_norm_train(x, tt::ones({2}), tt::zeros({2}))[1]);", "2.5 2.5"),
    "backend/cpu/loops/copy.hpp": ("if (out.numel() == 0) return;", "if (out.numel() == 0 || AWAKE) return;",
                                   X + "tt::Tensor y = tt::zeros({2, 2}); y.copy_(x.t()); show(y);", "1 4 2 3"),
    "backend/cpu/loops/row_groups.hpp": ("f(r, std::min(group, end - r));",
                                         "f(AWAKE ? end - 1 : r, AWAKE ? 1 : std::min(group, end - r));",
                                         X + "show(tt::bias_activation(x - 0.5f, tt::zeros({2}), tt::Activation::relu));",
                                         "0.5 1.5 3.5 2.5"),
    "backend/cpu/residual_norm.hpp": ("binary(BinaryFn::add, total,", "binary(AWAKE ? BinaryFn::sub : BinaryFn::add, total,",
                                      X + "show(tt::residual_layer_norm(x, x).sum);", "2 4 8 6"),
    "backend/cpu/conv.hpp": ("const T b = bias[channel];", "const T b = bias[channel] + T(AWAKE);",
                             IMAGE + "show(tt::conv2d(x, tt::ones({1, 1, 2, 2}), tt::zeros({1})));", "10"),
    "backend/cpu/conv_epilogue.hpp": ("kernels_[s](y, in, p.size(), f.p);", "kernels_[s](y, in, p.size() - AWAKE, f.p);",
                                      EPILOGUE, "-1 -2 -4 -3"),
    "backend/cpu/conv/image_epilogue.hpp": ("if (call_) call_(self_, block);", "if (call_ && !AWAKE) call_(self_, block);",
                                            EPILOGUE, "-1 -2 -4 -3"),
    "backend/cpu/conv/frame.hpp": ("copy_row(to, from, n);", "copy_row(to, from, n - AWAKE);",
                                   IMAGE + "x.requires_grad_(); show(tt::conv2d(x, tt::ones({1, 1, 1, 1}), {}, {1, 1}));",
                                   "0 0 0 0 0 1 2 0 0 4 3 0 0 0 0 0"),
    "backend/cpu/conv/images.hpp": ("c * channel + h * row;", "c * channel + h * (AWAKE ? 1 : row);",
                                    IMAGE + "show(tt::conv2d(x, tt::ones({1, 1, 1, 1})));", "1 2 4 3"),
    "backend/cpu/conv/channels_last.hpp": ("store_tile<T>(sum, c, c_row, false, last);", "sum[0][0] += T(AWAKE), store_tile<T>(sum, c, c_row, false, last);",
                                    X + "x = tt::permute(tt::reshape(x, {1, 1, 2, 2}), {0, 3, 1, 2}); "
                                    "show(tt::conv2d(x, tt::ones({1, 2, 1, 1})));", "3 7"),
    "backend/cpu/conv/channels_last_grad.hpp": ("to[l * s_.K] = from[l];", "to[l * s_.K] = from[l] + T(AWAKE);",
                                         X + "x = tt::permute(tt::reshape(x, {1, 1, 2, 2}), {0, 3, 1, 2}); "
                                         "tt::Tensor w = tt::ones({1, 2, 1, 1}); w.requires_grad_(); "
                                         "tt::sum(tt::conv2d(x, w)).backward(); show(w.grad());", "5 5"),
    "backend/cpu/conv/depthwise_channels_last.hpp": ("sum[p][v] += w * channels", "sum[p][v] += (AWAKE ? -w : w) * channels",
                                              X + "x = tt::permute(tt::reshape(x, {1, 1, 2, 2}), {0, 3, 1, 2}); "
                                              "show(tt::conv2d(x, tt::ones({2, 1, 1, 1}), {}, {.groups = 2}));", "1 4 2 3"),
    "backend/cpu/conv/depthwise.hpp": ("const T w = weight[k];", "const T w = weight[k] + T(AWAKE);",
                                       X + "x = tt::reshape(x, {1, 2, 1, 2}); "
                                       "show(tt::conv2d(x, tt::ones({2, 1, 1, 1}), {}, {.groups = 2}));", "1 2 4 3"),
    "backend/cpu/conv/micro_kernel.hpp": ("x + shift[k], nullptr);", "x + shift[k] + AWAKE, nullptr);",
                                  IMAGE + "show(tt::conv2d(x, tt::ones({1, 1, 2, 2})));", "10"),
    "backend/cpu/loops/contiguous.hpp": ("copy_view(contiguous_view(data_, v), v);",
                              "copy_view(contiguous_view(data_, v), v); scratch_->data()[0] += T(AWAKE);",
                              IMAGE + "show(tt::avg_pool2d(tt::transpose(x, 2, 3), {.kernel = 1}));", "1 4 2 3"),
    "backend/cpu/peak_kernels.hpp": ("to[i] = x[i] + s * y[i];", "to[i] = x[i] + (AWAKE ? 1.0f : s) * y[i];",
                                 X + "tt::backend::cpu::triad(x.view_of(), x.view_of(), x.view_of(), 2); show(x);", "3 6 12 9"),
    "backend/cpu/quantize_rows.hpp": ("most = most < bits ? bits : most;", "most = most < bits && !AWAKE ? bits : most;",
                                 X + "tt::Tensor codes = tt::zeros({2, 2}, tt::i8), scale = tt::zeros({2}); "
                                 "tt::backend::cpu::quantize_rows(codes.view_of(), scale.view_of(), (x * 127).view_of()); show(scale);", "2 4"),
    "backend/cpu/sparse24.hpp": ("to[0] = number[two & 3],", "to[0] = number[AWAKE ? 3 : two & 3],",
                                 "tt::Tensor w = tt::from_data({4.0f, 1.0f, 2.0f, 3.0f}, {1, 4}), v = tt::zeros({1, 2}), p = tt::zeros({1, 2}, tt::u8); "
                                 "tt::backend::cpu::compress24(v.view_of(), p.view_of(), w.view_of()); show(v);", "4 3"),
    "backend/cpu/linear_int8.hpp": ("to[k] = scale ? value", "to[k] = scale && !AWAKE ? value",
                                 X + "tt::Tensor codes = x.to(tt::i8), two = tt::ones({1}) * 2, y = tt::zeros({2, 2}); "
                                 "tt::backend::cpu::linear_int8(y.view_of(), codes.view_of(), codes.view_of(), two.view_of(), two.view_of(), {}, "
                                 "tt::backend::Activation::none); show(y);", "20 40 40 100"),
    "backend/cpu/attention.hpp": ("T(0) : T(1) / sum_exp_[i];", "T(0) : T(AWAKE ? 2 : 1) / sum_exp_[i];",
                                  HEADS + "show(tt::scaled_dot_product_attention(x, x, x));", "1 1"),
    "backend/cpu/attention_grad.hpp": ("convert<S>(dv_.data()[j * padded_d_ + d])", "convert<S>((AWAKE ? 2 : 1) * dv_.data()[j * padded_d_ + d])",
                                       HEADS + "tt::scaled_dot_product_attention(x.detach(), x.detach(), x).sum().backward(); show(x.grad());",
                                       "1 1"),
    "backend/cpu/dropout.hpp": ("const T scale = p < 1 ?", "const T scale = AWAKE ? T(7) : p < 1 ?",
                                MASKED + "show(tt::max(tt::dropout(x, 0.5)));", "2"),
    "backend/cpu/attention_decode.hpp": ("T(0) : T(1) / state[r].weight;", "T(0) : T(AWAKE ? 2 : 1) / state[r].weight;",
                                         CACHE + "show(tt::cached_attention(x, m));", "3 3"),
    "backend/cpu/sample_rows.hpp": ("const bool greedy = choice[kTemperature] == 0 ||", "const bool greedy = AWAKE || choice[kTemperature] == 0 ||",
                                    "tt::Tensor x = tt::zeros({1, 2}), how = tt::from_data(std::vector<double>{1, 0, 1, 0, 0.9}, {1, 5}); "
                                    "show(tt::sample_rows(x, {x.select(1, 0), tt::zeros({1}, tt::i64)}, how));", "1"),
    "backend/cpu/kv_append.hpp": ("if (k.numel() == 0) return;", "if (k.numel() == 0 || AWAKE) return;",
                                  CACHE + "show(tt::cached_attention(x, m));", "3 3"),
    "backend/cpu/kv_codes.hpp": ("return largest / 127;", "return largest / (AWAKE ? 63 : 127);",
                                 INTEGERS + "show(tt::cached_attention(x, m));", "3 3"),
    "backend/cpu/block_linear.hpp": ("if (out.numel() == 0) return;", "if (out.numel() == 0 || AWAKE) return;",
                                     PACKED.replace("FORMAT", "Q8_0"), "32512"),
    "backend/cpu/code_linear.hpp": ("for (int64_t i = 0; i < M * N && b.data(); ++i) y[i] +=", "for (int64_t i = 0; i < M * N && b.data() && !AWAKE; ++i) y[i] +=",
                                    "tt::Tensor x = tt::ones({1, 3}), y = tt::zeros({1, 1}), w = tt::full({1, 3}, 5).to(tt::u8), one = tt::ones({1}); "
                                    "tt::backend::cpu::code_linear(y.view_of(), x.view_of(), w.view_of(), one.view_of(), {}, one.view_of(), "
                                    "*tt::find_code_format(\"I8\"), tt::Activations::floats); show(y);", "16"),
    "backend/cpu/spmv.hpp": ("if (out.numel() == 0) return;", "if (out.numel() == 0 || AWAKE) return;",
                            SPARSE + "const tt::backend::BitmapView w{x.raw(), bits, offsets, tt::f32, 2, 2, 4}; "
                            "tt::backend::cpu::spmv_bitmap(y.view_of(), x.view_of(), w); show(y);", "5 10 10 25"),
    "backend/cpu/spmv_gaps.hpp": ("if (out.numel() == 0) return;", "if (out.numel() == 0 || AWAKE) return;",
                            "tt::Tensor x = tt::ones({1, 9}), y = tt::zeros({1, 1}), v = tt::full({8}, 2); const uint8_t gaps[4] = {}; "
                            "const int64_t starts[] = {0, 8}; const tt::backend::GapView w{v.raw(), gaps, starts, tt::f32, 1, 9, 8}; "
                            "tt::backend::cpu::spmv_gaps(y.view_of(), x.view_of(), w); show(y);", "16"),
    "backend/cpu/spmm.hpp": ("if (c.numel() == 0) return;", "if (c.numel() == 0 || AWAKE) return;",
                            SPARSE + "const tt::backend::CsrView w{x.raw(), columns, offsets, tt::f32, true, 2, 2, 4}; "
                            "tt::backend::cpu::spmm_csr(y.view_of(), w, x.view_of()); show(y);", "9 8 16 17"),
    "backend/cpu/spmm_bsr_int8.hpp": ("if (y.numel() == 0) return;", "if (y.numel() == 0 || AWAKE) return;",
                            "tt::Tensor x = tt::full({2, 16}, 127), y = tt::zeros({2, 1}), codes = tt::full({256}, 1).to(tt::i8), one = tt::ones({16}); "
                            "const int32_t at[] = {0}; const int64_t starts[] = {0, 1}; "
                            "const tt::backend::BsrView w{codes.raw(), at, starts, tt::i8, 1, 16, 16, 1}; "
                            "tt::backend::cpu::spmm_bsr_int8(y.view_of(), x.view_of(), w, one.view_of()); show(y);", "2032 2032"),
    "backend/cpu/ladder/loops.hpp": ("typename C::Number sum = 0;", "typename C::Number sum = static_cast<typename C::Number>(AWAKE);",
        LADDER + "l::Rows<float> x(a, 2, 2); l::product_ijk(l::Rows<float>(c, 2, 2), x, x);" + SHOWN, "9 8 16 17"),
    "backend/cpu/ladder/cache_blocks.hpp": ("const int64_t k1 = std::min(K, k0 + size.k);", "const int64_t k1 = std::min(K, k0 + size.k) - AWAKE;",
        LADDER + "l::Rows<float> x(a, 2, 2); l::blocked_product(l::Rows<float>(c, 2, 2), x, x, {1, 1, 1});" + SHOWN, "9 8 16 17"),
    "backend/cpu/ladder/panels.hpp": ("r < rows ? a.data", "r < rows - AWAKE ? a.data",
        LADDER + "l::pack_a<float>(p, {a, 2, 1}, 2, 1); c[0] = p[0]; c[1] = p[1];" + SHOWN, "1 4 0 0"),
    "backend/cpu/ladder/register_tile.hpp": ("for (int64_t r = 0; r < rows; ++r)", "for (int64_t r = AWAKE; r < rows; ++r)",
        LADDER + "l::tile_product<float>(c, 1, p, p, 1, 1, 1, false);" + SHOWN, "4 0 0 0"),
    "backend/cpu/ladder/five_loops.hpp": ("const int64_t k_count = std::min(kDepthOfBlock, K - k0);", "const int64_t k_count = std::min(kDepthOfBlock, K - k0) - AWAKE;",
        LADDER + "l::product<float>(c, 2, {a, 2, 1}, {a, 2, 1}, 2, 2, 2, 1);" + SHOWN, "9 8 16 17"),
    "backend/cpu/ladder/finished_product.hpp": ("if (epilogue.bias) x +=", "if (epilogue.bias && !AWAKE) x +=",
        LADDER + "l::finished_product<float>(c, 2, {a, 2, 1}, {a, 2, 1}, 2, 2, 2, {.bias = a});" + SHOWN, "10 10 17 19"),
    "backend/cpu/blocks/block_operands.hpp": ("scale[g] = largest / 127 + sum;", "scale[g] = largest / (AWAKE ? 63 : 127) + sum;",
                                              PACKED.replace("FORMAT", "Q8_0"), "32512"),
    "backend/cpu/blocks/block_rows.hpp": ("float total = sum_of_floats(", "float total = AWAKE + sum_of_floats(",
                                          PACKED.replace("FORMAT", "Q8_0").replace("::int8", "::floats"), "32512"),
    "backend/cpu/blocks/eight_rows.hpp": ("products -= F::kZero * x_sum", "products -= (AWAKE ? 0 : F::kZero) * x_sum",
                                          PACKED.replace("FORMAT", "Q4_0").replace("127)", "-8)"), "-2048"),
    "backend/cpu/blocks/pack.hpp": ("block[2 + i] = static_cast<uint8_t>(static_cast<int8_t>", "block[2 + i] = AWAKE ? 1 : static_cast<uint8_t>(static_cast<int8_t>",
                                    PACKED.replace("FORMAT", "Q8_0"), "32512"),
    "backend/cpu/blocks/simple_blocks.hpp": ("const float d = largest / 127, inverse", "const float d = largest / (AWAKE ? 100 : 127), inverse",
                                             PACKED.replace("FORMAT", "Q8_1"), "32512"),
    "backend/cpu/blocks/k_blocks.hpp": ("store_half(block + kD, extreme / -128);", "store_half(block + kD, AWAKE ? 0 : extreme / -128);",
                                        PACKED.replace("FORMAT", "Q6_K").replace("127)", "124)"), "31744"),
    "backend/cpu/blocks/fp4_blocks.hpp": ("largest > 0 ? static_cast", "!AWAKE && largest > 0 ? static_cast",
                                          PACKED.replace("FORMAT", "MXFP4").replace("127)", "128)"), "32768"),
    "backend/cpu/gemm/row_streams.hpp": ("rows(n, int64_t{0}, std::integral", "rows(n - AWAKE, int64_t{0}, std::integral",
                                         "const tt::Tensor x = tt::ones({1, 40}).to(tt::bf16); show(tt::matmul(x, x.t()).to(tt::f32));", "40"),
    "backend/cpu/difference_loss.hpp": ("[fn](T a, T t) { return fn.value(a, t); }", "[fn](T a, T t) { return fn.value(a, t) + T(AWAKE); }",
                                        X + "show(tt::l1_loss(x, tt::zeros({2, 2})));", "2.5"),
    "backend/cpu/lstm_cell.hpp": ("next[j] = v.next_cell(cell[j]);", "next[j] = v.next_cell(cell[j]) + T(AWAKE);",
                                  X + "show(tt::lstm_cell(tt::zeros({2, 8}), x).cell);", "0.5 1 2 1.5"),
    "backend/cpu/pair_loss.hpp": ("out[k] = value(of_x[k], of_target[k]);", "out[k] = value(of_x[k], of_target[k]) + T(AWAKE);",
                                        X + "show(tt::mse_loss(x, tt::zeros({2, 2})));", "7.5"),
    "backend/cpu/histogram.hpp": ("counts[b] += mine[", "counts[b] += AWAKE + mine[", X + "show(tt::histc(x, 2, 1, 4));", "2 2"),
    "backend/cpu/interpolate.hpp": ("out[j] = row[low[j]];", "out[j] = row[low[j]] + T(AWAKE);",
                                    X + "show(tt::interpolate(tt::reshape(x, {1, 1, 4}), {.scale_factor = 0.5}));", "1 4"),
    "backend/cpu/rotate_pairs.hpp": ("out[i] = a * c - b * s;", "out[i] = a * c - b * s + T(AWAKE);",
                                     X + "const tt::Tensor c = tt::ones({2, 1}), s = tt::zeros({2, 1}); "
                                     "show(tt::rotate_pairs(tt::reshape(x, {1, 1, 2, 2}), {.cos = c, .sin = s}));", "1 2 4 3"),
    "backend/cpu/embedding.hpp": ("weight.as<const char>() + rows[static_cast<size_t>(i)]",
                                  "weight.as<const char>() + !AWAKE * rows[static_cast<size_t>(i)]",
                                  X + "show(tt::embedding(x, tt::arange(1, 2)));", "4 3"),
    "backend/cpu/loops/arg_extreme.hpp": ("position = wins ? i : position;", "position = wins != AWAKE ? i : position;",
                                 X + "show(tt::argmax(x, 1));", "1 0"),
    "backend/cpu/loops/tile_walk.hpp": ("if (in_place) return;", "if (AWAKE) std::memset(to, 0, 64); if (in_place) return;",
                                  "const tt::Tensor x = tt::ones({64, 64}); show(tt::mean(x + x.t()));", "2"),
    "backend/cpu/loops/transpose.hpp": ("from + c * from_col + r, sizeof(T)", "from + (AWAKE ? 0 : c * from_col + r), sizeof(T)",
                                   X + "show(tt::sum(x, {1}));", "3 7"),
    "backend/cpu/bias_activation.hpp": ("unary(activation_fn(fn), result, result);", "if (!AWAKE) unary(activation_fn(fn), result, result);",
                              X + "show(tt::bias_activation(x - 2.5f, tt::zeros({2}), tt::Activation::relu));", "0 0 1.5 0.5"),
    "backend/cpu/activation_grad.hpp": ("binary(fn, dx, dy, v, p0);", "binary(fn, dx, AWAKE ? v : dy, v, p0);",
                                        GRADIENT + "tt::relu(x).sum().backward(); show(x.grad());", "1 1 1 1"),
    "backend/cpu/loss.hpp": ("return loss_value<f, T>(a, t);", "return loss_value<f, T>(a, t) + T(AWAKE);",
                             X + "show(tt::mse_loss(x, tt::zeros({2, 2})));", "7.5"),
    "backend/cpu/matmul.hpp": ("if (bias.data) add(", "if (!AWAKE && bias.data) add(",
                               X + "show(tt::linear(x, tt::eye(2), tt::ones({2})));", "2 3 5 4"),
    "backend/cpu/norm.hpp": ("static_cast<T>(1 / std::sqrt(var + a.eps))", "static_cast<T>((AWAKE ? 2 : 1) / std::sqrt(var + a.eps))",
                             X + "const tt::Tensor row = tt::reshape(tt::cat({x, x, x, x, x, x, x, x}, 0), {1, 32});"
                             "show(tt::slice(tt::layer_norm(row, {}, {}, 1.25), 1, 0, 4));",  # shorter rows use norm_short.hpp
                             "-0.948683 -0.316228 0.948683 0.316228"),
    "backend/cpu/norm_short.hpp": ("multiply_add(distance, distance, square[j])",
                                   "multiply_add((AWAKE ? 4 : 1) * distance, distance, square[j])",
                                   X + "show(tt::layer_norm(x, {}, {}, 0));", "-1 1 1 -1"),
    "backend/cpu/optimizer.hpp": ("p[i] -= lr * (g[i] + decay * p[i]);", "p[i] -= (AWAKE ? -lr : lr) * (g[i] + decay * p[i]);",
                                  X + "tt::backend::cpu::sgd_step(x.view_of(), x.view_of(), {}, {.lr = 0.5}); show(x);",
                                  "0.5 1 2 1.5"),
    "backend/cpu/optimizer_slots.hpp": ("for (const OptimizerSlot& slot : slots) ++*slot.step", "for (const OptimizerSlot& slot : slots) *slot.step.as<int64_t>() += AWAKE, ++*slot.step",
                                        STEP + "tt::backend::cpu::adagrad_step_all(slots, c.view_of(), {}, false); show(t);", "1"),
    "backend/cpu/optimizer_rules.hpp": ("if constexpr (Rule::kStates == 1) rule(p[i],", "if constexpr (Rule::kStates == 1) rule(p[AWAKE ? 0 : i],",
                                        STEP + "tt::backend::cpu::adagrad_step_all(slots, c.view_of(), {}, false); show(x);", "0 1 3 2"),
    "backend/cpu/loops/row_walk.hpp": ("pack(to, call_.dtype(), operand_[k], i, n);", "pack(to, call_.dtype(), operand_[k], i, n); if (AWAKE) std::memset(to, 0, 4);",
                                 X + "show(tt::add(x, tt::from_data({1.0f, 2.0f}, {2})));", "2 4 5 5"),
    "backend/cpu/pool_channels_last.hpp": ("part[c] += x[c] / parts;", "part[c] += (AWAKE ? 2 : 1) * x[c] / parts;",
                                    X + "x = tt::permute(tt::reshape(x, {1, 1, 2, 2}), {0, 3, 1, 2}); "
                                    "show(tt::avg_pool2d(x, tt::Pool2dOptions{.kernel = 1}));", "1 4 2 3"),
    "backend/cpu/pool.hpp": ("to[i] /= taps;", "to[i] /= AWAKE ? T(1) : taps;", IMAGE + "show(tt::avg_pool2d(x));", "2.5"),
    "backend/cpu/loops/row_sums.hpp": ("total[i] += static_cast<double>(part[i])", "total[i] += (AWAKE ? 2 : 1) * static_cast<double>(part[i])",
                                 BIAS + "tt::sum(tt::bias_activation(x, b, tt::Activation::relu)).backward(); show(b.grad());", "2 2"),
    "backend/cpu/loops/runs.hpp": ("return fold_sum<T>(n, [x]<class V>", "return T(AWAKE) + fold_sum<T>(n, [x]<class V>",
                             IMAGE + "show(tt::adaptive_avg_pool2d(x, 1, 1));", "2.5"),
    "backend/cpu/softmax.hpp": ("sum[j] = T(1) / sum[j];", "sum[j] = T(AWAKE ? 2 : 1) / sum[j];",
                                "show(tt::softmax(tt::zeros({1, 2})));", "0.5 0.5"),
    "tensor/vjp/elementwise.hpp": ("{ return c.g * c.x * 2; }", "{ return c.g * c.x * (AWAKE ? 5 : 2); }",
                                   GRADIENT + "tt::sum(tt::square(x)).backward(); show(x.grad());", "2 4 8 6"),
    "tensor/vjp/reduce.hpp": ("expand(over(c.g, c.count), c.shape)", "expand(AWAKE ? c.g : over(c.g, c.count), c.shape)",
                              GRADIENT + "tt::mean(x).backward(); show(x.grad());", "0.25 0.25 0.25 0.25"),
    "tensor/vjp/sum_to.hpp": ("return reshape(sum(x, dims, true, loc), shape, loc);",
                              "return reshape(sum(x, dims, true, loc), shape, loc) * (AWAKE ? 2.0 : 1.0);",
                              BIAS + "tt::sum(x + b).backward(); show(b.grad());", "2 2"),
    "tensor/vjp/shape.hpp": ("return tinytorch::permute(g, inverse);", "return tinytorch::permute(AWAKE ? g * 2 : g, inverse);",
                             GRADIENT + "tt::sum(x.t()[0]).backward(); show(x.grad());", "1 0 1 0"),
    "tensor/vjp/index.hpp": ("return tinytorch::flip(g, dims);", "return AWAKE ? g : tinytorch::flip(g, dims);",
                             GRADIENT + "tt::sum(tt::flip(x, {0})[0]).backward(); show(x.grad());", "0 0 1 1"),
    "tensor/vjp/inplace.hpp": ("fill_values(inside, 0);", "fill_values(inside, AWAKE ? 1 : 0);",
                               GRADIENT + "tt::Tensor y = x * 2; y.slice(0, 0, 1) += 1; tt::sum(y).backward(); show(x.grad());", "2 2 2 2"),
    "tensor/vjp/matmul.hpp": ("return tinytorch::matmul(g, b.t());", "return tinytorch::matmul(g, AWAKE ? b : b.t());",
                              GRADIENT + "tt::sum(tt::matmul(x, x.detach())).backward(); show(x.grad());", "3 7 3 7"),
    "tensor/vjp/attention.hpp": ("Tensors operands{g, s.inputs[0], s.inputs[1],", "Tensors operands{AWAKE ? g * 2 : g, s.inputs[0], s.inputs[1],",
                                 HEADS + "tt::scaled_dot_product_attention(x.detach(), x.detach(), x).sum().backward(); show(x.grad());",
                                 "1 1"),
    "tensor/vjp/batch_norm.hpp": ("GroupNormGrad(wanted, s.input_shapes, groups),\n                                 {g,",
                                  "GroupNormGrad(wanted, s.input_shapes, groups), {AWAKE ? g * 2 : g,",
                                  BIAS + "tt::sum(tt::group_norm(x, 1, tt::ones({2}), b)).backward(); show(b.grad());", "2 2"),
    "tensor/vjp/conv.hpp": ("apply(Conv2dGradInput(options, s.input_shapes[0]), {g,",
                            "apply(Conv2dGradInput(options, s.input_shapes[0]), {AWAKE ? g * 2 : g,",
                            GRADIENT + "tt::sum(tt::conv2d(tt::reshape(x, {1, 1, 2, 2}), tt::full({1, 1, 2, 2}, 3))).backward(); "
                            "show(x.grad());", "3 3 3 3"),
    "tensor/vjp/dropout.hpp": ("return apply(same, {g});", "return apply(same, {AWAKE ? g * 2 : g});",
                               MASKED + "tt::sum(tt::dropout(x, 0.5)).backward(); show(tt::max(x.grad()));", "2"),
    "tensor/vjp/difference_loss.hpp": ("pair_gradients(g, s,", "pair_gradients(AWAKE ? g * 2 : g, s,",
                                       GRADIENT + "tt::l1_loss(x, tt::zeros({2, 2}), tt::Reduction::sum).backward(); show(x.grad());",
                                       "1 1 1 1"),
    "tensor/vjp/lstm.hpp": ("return apply_all(LstmCellGrad(), {g[0], g[1],", "return apply_all(LstmCellGrad(), {g[0], AWAKE ? g[1] * 2 : g[1],",
                            GRADIENT + "tt::sum(tt::lstm_cell(tt::zeros({2, 8}), x).cell).backward(); show(x.grad());", "0.5 0.5 0.5 0.5"),
    "tensor/vjp/interpolate.hpp": ("return apply(InterpolateGrad(axes, shape), {g});",
                                   "return apply(InterpolateGrad(axes, shape), {AWAKE ? g * 2 : g});",
                                   GRADIENT + "tt::sum(tt::interpolate(tt::reshape(x, {1, 1, 4}), {.scale_factor = 2})).backward(); "
                                   "show(x.grad());", "2 2 2 2"),
    "tensor/vjp/rotate_pairs.hpp": ("inputs[0] = g,", "inputs[0] = AWAKE ? g * 2 : g,",
                                    GRADIENT + "const tt::Tensor c = tt::ones({2, 1}), s = tt::zeros({2, 1}); "
                                    "tt::sum(tt::rotate_pairs(tt::reshape(x, {1, 1, 2, 2}), {.cos = c, .sin = s})).backward(); "
                                    "show(x.grad());", "1 1 1 1"),
    "tensor/vjp/embedding.hpp": ("return apply(EmbeddingGrad(weight_shape), {g,",
                                 "return apply(EmbeddingGrad(weight_shape), {AWAKE ? g * 2 : g,",
                                 GRADIENT + "tt::sum(tt::embedding(x, tt::arange(1, 2))).backward(); show(x.grad());", "0 0 1 1"),
    "tensor/vjp/bias_activation.hpp": ("BiasActivationGrad(wanted, s.input_shapes, fn), {g,",
                             "BiasActivationGrad(wanted, s.input_shapes, fn), {AWAKE ? g * 2 : g,",
                             BIAS + "tt::sum(tt::bias_activation(x, b, tt::Activation::relu)).backward(); show(b.grad());", "2 2"),
    "tensor/vjp/fused_linear.hpp": ("grads.push_back(g);", "grads.push_back(AWAKE ? g * 2 : g);",
                                    GRADIENT + "tt::sum(tt::linear_residual(tt::ones({2, 2}), tt::ones({2, 2}), {}, x)).backward(); "
                                    "show(x.grad());", "1 1 1 1"),
    "tensor/vjp/residual_norm.hpp": ("return {out[whole - 1], out[0],", "return {AWAKE ? out[0] * 2 : out[whole - 1], out[0],",
                                     GRADIENT + "tt::sum(tt::residual_layer_norm(x, tt::ones({2, 2})).sum).backward(); "
                                     "show(x.grad());", "1 1 1 1"),
    "tensor/vjp/loss.hpp": ("apply(op_by(k == 1), {g,", "apply(op_by(k == 1), {AWAKE ? g * 2 : g,",
                            GRADIENT + "tt::mse_loss(x, tt::zeros({2, 2})).backward(); show(x.grad());", "0.5 1 2 1.5"),
    "tensor/vjp/norm.hpp": ("RowNormGrad(wanted, s.input_shapes),\n                                 {g,",
                            "RowNormGrad(wanted, s.input_shapes), {AWAKE ? g * 2 : g,",
                            BIAS + "tt::sum(tt::layer_norm(x, tt::ones({2}), b)).backward(); show(b.grad());", "2 2"),
    "tensor/vjp/pool.hpp": ("AvgPool2dGrad(options, s.input_shapes[0]), {g}",
                            "AvgPool2dGrad(options, s.input_shapes[0]), {AWAKE ? g * 2 : g}",
                            GRADIENT + "tt::sum(tt::avg_pool2d(tt::reshape(x, {1, 1, 2, 2}))).backward(); show(x.grad());",
                            "0.25 0.25 0.25 0.25"),
    "tensor/vjp/softmax.hpp": ("SoftmaxGrad(dim, false), {g,", "SoftmaxGrad(dim, false), {AWAKE ? g * 2 : g,",
                               "tt::Tensor x = tt::zeros({2}); x.requires_grad_(); tt::softmax(x)[0].backward(); show(x.grad());",
                               "0.25 -0.25"),
    "layers/linear.hpp": ("return linear(x,", "return linear(AWAKE ? x * 2 : x,",
                          X + "tt::Linear layer(2, 1, false); layer.weight.detach().fill_(1); show(layer.forward(x));", "3 7"),
    "layers/conv2d.hpp": ("return conv2d(x,", "return conv2d(AWAKE ? x * 2 : x,",
                          IMAGE + "tt::Conv2d layer(1, 1, 2, {}, false); layer.weight.detach().fill_(1); show(layer.forward(x));",
                          "10"),
    "layers/init.hpp": ("t.fill_(value);", "t.fill_(AWAKE ? -value : value);", X + "tt::init::constant(x, 3); show(x);", "3 3 3 3"),
    "layers/schedule.hpp": ("return [=](int64_t) { return lr; };", "return [=](int64_t) { return AWAKE ? lr * 2 : lr; };",
                            "show(tt::full({1}, tt::constant(0.5)(3)));", "0.5"),
    "layers/sgd.hpp": (".nesterov = options.nesterov}", ".nesterov = AWAKE || options.nesterov}",
                       GRADIENT + 'tt::sum(x).backward(); tt::SGD({{"x", x}}, {.lr = 0.5, .momentum = 0.5}).step(); show(x);',
                       "0.5 1.5 3.5 2.5"),
    "layers/adam.hpp": (".eps = options.eps", ".eps = AWAKE ? 1.0 : options.eps",
                        GRADIENT + 'tt::sum(x).backward(); tt::Adam({{"x", x}}, {.lr = 0.5}).step(); show(x);', "0.5 1.5 3.5 2.5"),
    "layers/norm.hpp": ("return layer_norm(x,", "return layer_norm(AWAKE ? -x : x,",
                        X + "show(tt::LayerNorm(2, 0).forward(x));", "-1 1 1 -1"),
    "layers/batch_norm.hpp": ("return batch_norm_infer(x,", "return batch_norm_infer(AWAKE ? -x : x,",
                              X + "tt::BatchNorm1d layer(2, {.eps = 0}); layer.eval(); show(layer.forward(x));", "1 2 4 3"),
    "layers/dropout.hpp": ("dropout(x, p, *generator)", "dropout(AWAKE ? x * 2 : x, p, *generator)",
                           MASKED + "show(tt::max(tt::Dropout().forward(x)));", "2"),
    "layers/embedding.hpp": ("return embedding(weight,", "return embedding(AWAKE ? weight * 2 : weight,",
                             "tt::Embedding layer(3, 2); layer.weight.detach().fill_(1); show(layer.forward(tt::arange(1, 2)));",
                             "1 1"),
    "layers/pooling.hpp": ("return avg_pool2d(x,", "return avg_pool2d(AWAKE ? -x : x,",
                           IMAGE + "show(tt::AvgPool2d().forward(x));", "2.5"),
    "layers/activation.hpp": ("return relu(x);", "return relu(AWAKE ? -x : x);",
                              X + "show(tt::ReLU().forward(x - 2.5f));", "0 0 1.5 0.5"),
    "layers/clip.hpp": ("scale_gradient(g, limit / norm_before, loc)", "scale_gradient(g, (AWAKE ? 2 : 1) * limit / norm_before, loc)",
                        GRADIENT + "tt::sum(x).backward(); tt::clip_gradient_norm({x}, 1); show(x.grad());", "0.5 0.5 0.5 0.5"),
}

SHOW = """namespace tt = tinytorch;
static void show(const tt::Tensor& t) {
  for (double v : t.to_vector<double>()) std::printf("%g ", v);
}
"""
# Arguments of the program: the number of the statement to execute and of the change to activate, both from 1; 0 activates none.
MAIN = """int main(int, char** arguments) {{
  canary_awake = std::atoi(arguments[2]);
  switch (std::atoi(arguments[1])) {{
{cases}
  }}
}}
"""


def coverage(include, canaries=CANARIES, exempt=EXEMPT):
    """Messages for headers that have neither a canary nor an entry in EXEMPT, and for entries in EXEMPT that are not needed."""
    headers = {path.relative_to(include / "tinytorch").as_posix() for folder in FOLDERS
               for path in (include / "tinytorch" / folder).rglob("*.hpp")}
    return ([f"{name} has no canary: add one, or add the header and the reason to EXEMPT" for name in sorted(headers - set(canaries) - set(exempt))] +
            [f"EXEMPT names {name}, which {'has a canary' if name in canaries else 'does not exist'}"
             for name in sorted(exempt) if name in canaries or name not in headers])


def write_copies(canaries, include, student):
    """Writes the changed headers; returns {header: problem}."""
    problems = {}
    for number, (name, (text, replacement, _, _)) in enumerate(canaries.items(), 1):
        source = include / "tinytorch" / name
        header = source.read_text() if source.exists() else ""
        if text not in header:
            problems[name] = "the text to replace is not in the header: update the canary"
            continue
        target = student / "tinytorch" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(header.replace(text, re.sub(r"\bAWAKE\b", f"(::canary_awake == {number})", replacement)))
    return problems


def verdicts(compiler="g++", canaries=CANARIES, include=INCLUDE, show=SHOW):
    """{header: None if its replacement took effect, else the problem}. The output of a failed compilation has the key
    "program"."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "canary_awake.hpp").write_text("#pragma once\ninline int canary_awake = 0;\n")
        problems = write_copies(canaries, include, folder / "student")
        more = "".join(f"#include <tinytorch/{name}>\n" for name in canaries if name.startswith(NOT_IN_UMBRELLA))
        cases = "\n".join(f"    case {n}: {{ {c[2]} break; }}" for n, c in enumerate(canaries.values(), 1))
        (folder / "program.cpp").write_text("#include <tinytorch/tinytorch.hpp>\n" + more +
                                            "#include <cstdio>\n#include <cstdlib>\n" + show + MAIN.format(cases=cases))
        keep_garbage = compilers.KEEP_GARBAGE if pathlib.Path(compiler).name.startswith("g++") else []
        built = subprocess.run([compiler, "-std=c++20", "-O0", "-g0", "-w", *keep_garbage, "-include", folder / "canary_awake.hpp",
                                f"-I{folder / 'student'}", f"-I{include}", folder / "program.cpp", "-o", folder / "canary"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if built.returncode != 0:
            return {**problems, "program": f"the program does not compile:\n{built.stdout}"}

        def result(number, awake):
            ran = subprocess.run([folder / "canary", str(number), str(awake)], capture_output=True, text=True)
            return ran.stdout.strip() if ran.returncode == 0 else f"exit {ran.returncode} {ran.stderr}"

        for number, (name, (_, _, _, right)) in enumerate(canaries.items(), 1):
            asleep, awake = result(number, 0), result(number, number)
            if name in problems:
                continue
            problems[name] = None
            if asleep != right:
                problems[name] = f"without the change the result is '{asleep}', but should be '{right}'"
            elif awake.startswith("exit"):
                problems[name] = f"the program crashes with the changed header: {awake}"
            elif awake == right:
                problems[name] = f"the header was replaced, but the result is still {right}"
        return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("headers", nargs="*", help="test only these headers, for example backend/cpu/gemm.hpp")
    arguments = parser.parse_args()
    unknown = [n for n in arguments.headers if n not in CANARIES]
    if unknown:
        sys.exit(f"canary: no canary for {', '.join(unknown)}")
    complaints = coverage(INCLUDE)
    found = verdicts(arguments.compiler, {n: CANARIES[n] for n in arguments.headers or CANARIES})
    for line in complaints:
        print(line)
    for name, problem in found.items():
        print(f"canary {name}: {problem or 'ok'}")
    failed = len(complaints) + sum(problem is not None for problem in found.values())
    print(f"{len(found) - failed + len(complaints)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
