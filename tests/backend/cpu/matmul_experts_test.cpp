// MUL_MAT_ID and MUL_MAT of rank 3 through the CPU backend, against f64 sums over the same packed inputs. Instruction
// sets, threads and the tokens beside one change no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cpu/matmul_graph_helpers.h"
#include "backend/reference/backend.h"

namespace tokamak::cpu::test {
namespace {

constexpr int64_t kExperts = 6, kUsed = 2, kOut = 40, kIn = 256;
constexpr int64_t kIdsPad = 3;  // ids are a part of longer rows

// Row `row` of x through rows [begin, begin + n) of the weight.
Reference one_product(const Matrix& m, int64_t begin, int64_t n, ActivationKind kind, std::span<const float> x) {
  Matrix part{m.dtype, n, m.k, {}};
  const auto first = m.rows.begin() + begin * static_cast<int64_t>(m.row_bytes());
  part.rows.assign(first, first + n * static_cast<int64_t>(m.row_bytes()));
  const AlignedBytes packed = pack_columns(kind, Isa::scalar, {x.begin(), x.end()}, 1, m.k);
  return reference(part, unpack_columns(kind, packed, 1, m.k), 1);
}

enum class Routing { mixed, all_to_one, same_twice };

struct Experts {
  DType dtype;
  int64_t n_tokens;
  int64_t x_rows;  // per token: 1 or kUsed
  Routing routing = Routing::mixed;
  Matrix m = make_matrix(dtype, kExperts* kOut, kIn, 7);
  std::vector<float> x = random_floats(static_cast<size_t>(n_tokens * x_rows * kIn), 3);

  // Expert 4 is never chosen.
  int32_t expert(int64_t token, int64_t i) const {
    if (routing == Routing::all_to_one) return i == 0 ? 5 : 2;
    if (routing == Routing::same_twice) return 1;
    const int64_t first = token * token % 4;
    return static_cast<int32_t>(i == 0 ? first : (first + 1 + token % 3) % 4);
  }

  // Tokens [begin, begin + n) alone: f32 [n, kUsed, kOut].
  std::vector<float> run(Backend& backend, int64_t begin, int64_t n) const {
    ir::GraphBuilder b("experts");
    NamedWeights weights;
    const auto table = weights.add(b, "x", f32_matrix(x, n_tokens * x_rows, kIn), {n_tokens * x_rows, kIn});
    const auto rows = b.get_rows(table, b.input(ir::InputRole::out_rows, {n * x_rows}));
    const auto all_ids = b.input(ir::InputRole::tokens, {n, kUsed + kIdsPad});
    const auto ids = b.view(all_ids, 1, {n, kUsed});
    const auto w = weights.add(b, "experts", m, {kExperts, kOut, kIn});
    b.output(b.mul_mat_id(w, b.reshape(rows, {n, x_rows, kIn}), ids, "product"));
    std::vector<int32_t> tokens(static_cast<size_t>(n * (kUsed + kIdsPad)), -1),
        out_rows(static_cast<size_t>(n * x_rows));
    for (int64_t t = 0; t < n; ++t)
      for (int64_t i = 0; i < kUsed; ++i)
        tokens[static_cast<size_t>(t * (kUsed + kIdsPad) + 1 + i)] = expert(begin + t, i);
    std::iota(out_rows.begin(), out_rows.end(), static_cast<int32_t>(begin * x_rows));
    return run_graph(backend, b.finish(), weights, tokens, out_rows).outputs.at(0);
  }

  void expect_close(const std::vector<float>& y, ActivationKind kind) const {
    for (int64_t pair = 0; pair < n_tokens * kUsed; ++pair) {
      const int64_t row = x_rows == 1 ? pair / kUsed : pair;
      const Reference r = one_product(m, expert(pair / kUsed, pair % kUsed) * kOut, kOut, kind,
                                      std::span<const float>(x).subspan(static_cast<size_t>(row * kIn), kIn));
      for (size_t o = 0; o < r.y.size(); ++o)
        ASSERT_LE(std::abs(double{y[static_cast<size_t>(pair * kOut) + o]} - r.y[o]),
                  error_bound(kind, kIn, r.magnitude[o]))
            << "pair " << pair << " row " << o;
    }
  }
};

class MatmulExperts : public testing::TestWithParam<DType> {};

TEST_P(MatmulExperts, AgreesWithF64ReferenceAndKeepsItsBits) {
  for (ActivationKind integer : {ActivationKind::int8, ActivationKind::int16})
    for (int64_t n_tokens : {1, 2, 7, 33})
      for (int64_t x_rows : {int64_t{1}, kUsed}) {
        const std::string_view activations = activation_format(integer).name;
        SCOPED_TRACE(std::to_string(n_tokens) + " tokens, " + std::to_string(x_rows) + " rows each, " +
                     std::string(activations));
        const Experts experts{GetParam(), n_tokens, x_rows};
        const std::vector<float> y = experts.run(*cpu_backend("scalar", 1, activations), 0, n_tokens);
        experts.expect_close(y, activation_kind(GetParam(), integer));
        for (const BackendChoice& choice : backend_choices())
          ASSERT_TRUE(same_bits(experts.run(*cpu_backend(choice.isa, choice.n_threads, activations), 0, n_tokens), y))
              << choice.isa << " " << choice.n_threads;
      }
}

TEST_P(MatmulExperts, TokensAloneEqualTheBatch) {
  for (int64_t x_rows : {int64_t{1}, kUsed}) {
    const int64_t n_tokens = 33;
    const Experts experts{GetParam(), n_tokens, x_rows};
    const auto backend = cpu_backend("auto", 2, "int16");
    const std::vector<float> batch = experts.run(*backend, 0, n_tokens);
    for (const auto& [begin, n] : std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {5, 1}, {32, 1}, {0, 8}, {8, 25}}) {
      const auto first = batch.begin() + begin * kUsed * kOut;
      ASSERT_TRUE(same_bits(experts.run(*backend, begin, n), {first, first + n * kUsed * kOut})) << begin;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MatmulExperts,
                         testing::Values(DType::q8_0, DType::q4_0, DType::q4_1, DType::q4_k, DType::q6_k, DType::q2_k,
                                         DType::tq2_0, DType::q1_0, DType::mxfp4, DType::nvfp4, DType::iq4_nl,
                                         DType::iq2_xs, DType::iq3_s, DType::f32, DType::f16, DType::bf16, DType::q8_1),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST(MatmulExpertsRouting, OneExpertTakesAllAndATokenMayNameOneTwice) {
  for (Routing routing : {Routing::all_to_one, Routing::same_twice})
    for (int64_t n_tokens : {1, 33})
      for (int64_t x_rows : {int64_t{1}, kUsed}) {
        const Experts experts{DType::q4_k, n_tokens, x_rows, routing};
        for (int64_t n_threads : {1, 2, 5})
          experts.expect_close(experts.run(*cpu_backend("auto", n_threads, "int8"), 0, n_tokens), ActivationKind::int8);
      }
}

// Heads [n_head, n_out, n_in] times a part of every head's row.
class MatmulHeads : public testing::TestWithParam<DType> {};

TEST_P(MatmulHeads, AgreesWithF64ReferenceAndKeepsItsBits) {
  constexpr int64_t kHeads = 3, kRow = kIn + 32, kOffset = 32;
  const Matrix m = make_matrix(GetParam(), kHeads * kOut, kIn, 5);
  const std::vector<float> x = random_floats(33 * kHeads * kRow, 4);
  const ActivationKind kind = activation_kind(GetParam(), ActivationKind::int16);
  const auto run = [&](Backend& backend, int64_t begin, int64_t n) {
    ir::GraphBuilder b("heads");
    NamedWeights weights;
    const auto table = weights.add(b, "x", f32_matrix(x, 33, kHeads * kRow), {33, kHeads * kRow});
    const auto rows = b.reshape(b.get_rows(table, b.input(ir::InputRole::out_rows, {n})), {n, kHeads, kRow});
    b.output(b.mul_mat(weights.add(b, "heads", m, {kHeads, kOut, kIn}), b.view(rows, kOffset, {n, kHeads, kIn})));
    std::vector<int32_t> out_rows(static_cast<size_t>(n));
    std::iota(out_rows.begin(), out_rows.end(), static_cast<int32_t>(begin));
    return run_graph(backend, b.finish(), weights, {}, out_rows).outputs.at(0);
  };
  const std::vector<float> all = run(*cpu_backend("scalar", 1, "int16"), 0, 33);
  for (int64_t r = 0; r < 33 * kHeads; ++r) {
    const Reference exact =
        one_product(m, r % kHeads * kOut, kOut, kind,
                    std::span<const float>(x).subspan(static_cast<size_t>(r * kRow + kOffset), kIn));
    for (size_t o = 0; o < exact.y.size(); ++o)
      ASSERT_LE(std::abs(double{all[static_cast<size_t>(r * kOut) + o]} - exact.y[o]),
                error_bound(kind, kIn, exact.magnitude[o]));
  }
  for (const BackendChoice& choice : backend_choices())
    for (int64_t n : {1, 2, 7, 33}) {
      const auto y = run(*cpu_backend(choice.isa, choice.n_threads, "int16"), 33 - n, n);
      ASSERT_TRUE(same_bits(y, {all.end() - n * kHeads * kOut, all.end()})) << choice.isa << " " << n;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, MatmulHeads,
                         testing::Values(DType::q8_0, DType::q4_k, DType::iq2_xs, DType::nvfp4, DType::f32, DType::f16,
                                         DType::bf16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

// Router, chosen experts (a strided part of ARGSORT's result), gate, up, GLU and down, beside the reference backend.
TEST(MatmulExpertsBlock, ARoutedLayerEqualsTheReference) {
  constexpr int64_t kFf = 96, kTokens = 17;
  const std::vector<float> x = random_floats(kTokens * kIn, 3), router = random_floats(kExperts * kIn, 4);
  const auto run = [&](Backend& backend, bool fusion, DType type) {
    ir::GraphBuilder b("block");
    NamedWeights w;
    const auto rows = b.input(ir::InputRole::out_rows, {kTokens});
    const auto h = b.get_rows(w.add(b, "x", f32_matrix(x, kTokens, kIn), {kTokens, kIn}), rows);
    const auto probs = b.soft_max(b.mul_mat(w.add_vector(b, "router", router, {kExperts, kIn}), h));
    const auto ids = b.view(b.argsort(probs), 0, {kTokens, kUsed});
    const auto chosen = b.get_rows(b.reshape(probs, {kTokens, kExperts, 1}), ids);
    const auto linear = [&](const std::string& name, ir::ValueId input, int64_t n_out, int64_t n_in, uint32_t seed) {
      const Matrix m = make_matrix(type, kExperts * n_out, n_in, seed);
      const auto y = b.mul_mat_id(w.add(b, name, m, {kExperts, n_out, n_in}), input, ids);
      const auto bias = random_floats(static_cast<size_t>(kExperts * n_out), seed + 1);
      return b.add_id(y, w.add_vector(b, name + ".bias", bias, {kExperts, n_out}), ids);
    };
    const auto input = b.reshape(h, {kTokens, 1, kIn});
    const auto gate = linear("gate", input, kFf, kIn, 5), up = linear("up", input, kFf, kIn, 7);
    const auto down = linear("down", b.glu(gate, up, ir::Glu::swiglu), kIn, kFf, 9);
    b.output(b.mul(down, chosen));
    std::vector<int32_t> out_rows(kTokens);
    std::iota(out_rows.begin(), out_rows.end(), 0);
    return run_graph(backend, b.finish(), w, {}, out_rows, {.fusion = fusion}).outputs.at(0);
  };
  const std::vector<float> exact = run(*make_reference_backend(), false, DType::f32);
  double size = 0;
  for (float y : exact) size += double{y} * double{y};
  for (bool fusion : {false, true})
    for (int64_t n_threads : {1, 3}) {
      const std::vector<float> y = run(*cpu_backend("auto", n_threads, "int16"), fusion, DType::f32);
      double error = 0;
      for (size_t i = 0; i < y.size(); ++i) error += std::pow(double{y[i]} - double{exact[i]}, 2);
      // Sums of 256 and of 96 products with f32 steps, relative to their root mean square: (256 u)^2 and less.
      EXPECT_LE(error, 3 * std::pow(256 * 0x1p-24, 2) * size) << fusion << " " << n_threads;
    }
  for (DType type : {DType::q8_0, DType::mxfp4})
    EXPECT_TRUE(same_bits(run(*cpu_backend("auto", 2, "int16"), true, type),
                          run(*cpu_backend("scalar", 1, "int16"), true, type)));
}

}  // namespace
}  // namespace tokamak::cpu::test
