// Fused epilogues of products, dense and per expert: what the product alone gives, then the same f32 steps.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "backend/cpu/matmul_graph_helpers.h"

namespace tokamak::cpu::test {
namespace {

constexpr int64_t kExperts = 5, kUsed = 2, kOut = 40, kIn = 256;

struct Options {
  DType dtype = DType::nvfp4;
  bool experts = false, scale = false, bias = false, residual = false;
  int64_t n_tokens = 7;
};

// A graph of one input, and what its tensors hold.
class Products {
 public:
  explicit Products(const Options& o)
      : o_(o),
        n_matrices_(o.experts ? kExperts : 1),
        scales_{random_floats(kExperts, 21), random_floats(kExperts, 22)},
        biases_{random_floats(kExperts * kOut, 23), random_floats(kExperts * kOut, 24)},
        residual_(random_floats(static_cast<size_t>(o.n_tokens * kOut), 25)) {}

  int64_t n_rows() const { return o_.n_tokens * (o_.experts ? kUsed : 1); }
  int32_t expert(int64_t row) const {
    return o_.experts ? static_cast<int32_t>((row / kUsed + 3 * (row % kUsed)) % kExperts) : 0;
  }

  // scale * sum + bias + residual of lane 0 or 1, rounded after each step.
  float finished(size_t lane, int64_t row, int64_t o, float sum) const {
    const auto e = static_cast<size_t>(expert(row)), col = static_cast<size_t>(o);
    if (o_.scale) sum *= scales_[lane][e];
    if (o_.bias) sum += biases_[lane][e * kOut + col];
    return o_.residual ? sum + residual_[static_cast<size_t>(row) * kOut + col] : sum;
  }

  // Runs what `make` adds to the graph of input and residual; its value is the output.
  using Make = std::function<ir::ValueId(ir::GraphBuilder& b, Products& p)>;
  GraphRun run(const Make& make, const CompileOptions& options = {}) {
    const auto backend = cpu_backend("auto", 2, "int16");
    ir::GraphBuilder b("products");
    std::vector<int32_t> rows(static_cast<size_t>(o_.n_tokens)), ids(static_cast<size_t>(n_rows()));
    std::iota(rows.begin(), rows.end(), 0);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = expert(static_cast<int64_t>(i));
    const Matrix table = f32_matrix(random_floats(static_cast<size_t>(o_.n_tokens * kIn), 26), o_.n_tokens, kIn);
    const auto out_rows = b.input(ir::InputRole::out_rows, {o_.n_tokens});
    x_ = b.get_rows(weights_.add(b, "x", table, {o_.n_tokens, kIn}), out_rows);
    if (o_.residual)
      residual_id_ = b.get_rows(
          weights_.add(b, "residual", f32_matrix(residual_, o_.n_tokens, kOut), {o_.n_tokens, kOut}), out_rows);
    if (o_.experts) {
      x_ = b.reshape(x_, {o_.n_tokens, 1, kIn});
      ids_ = b.input(ir::InputRole::tokens, {o_.n_tokens, kUsed});
    }
    b.output(make(b, *this));
    return run_graph(*backend, b.finish(), weights_, ids, rows, options);
  }

  ir::ValueId product(ir::GraphBuilder& b, size_t lane) {
    const std::string name = lane == 0 ? "gate" : "up";
    const Matrix m = make_matrix(o_.dtype, n_matrices_ * kOut, kIn, static_cast<uint32_t>(30 + lane));
    if (!o_.experts) return b.mul_mat(weights_.add(b, name, m, {kOut, kIn}), x_);
    return b.mul_mat_id(weights_.add(b, name, m, {kExperts, kOut, kIn}), x_, ids_);
  }
  ir::ValueId lane(ir::GraphBuilder& b, size_t lane) {
    ir::ValueId y = product(b, lane);
    const std::string name = lane == 0 ? "gate" : "up";
    std::vector<float> scales = scales_[lane], biases = biases_[lane];
    scales.resize(static_cast<size_t>(n_matrices_));
    biases.resize(static_cast<size_t>(n_matrices_ * kOut));
    if (o_.scale && o_.experts)
      y = b.mul(y, b.get_rows(weights_.add_vector(b, name + ".scale", scales, {kExperts, 1}), ids_));
    else if (o_.scale)
      y = b.mul(y, weights_.add_vector(b, name + ".scale", scales, {1}));
    if (o_.bias && o_.experts)
      y = b.add_id(y, weights_.add_vector(b, name + ".bias", biases, {kExperts, kOut}), ids_);
    else if (o_.bias)
      y = b.add(y, weights_.add_vector(b, name + ".bias", biases, {kOut}));
    return o_.residual ? b.add(residual_id_, y) : y;
  }
  std::vector<float> sums(size_t lane) {
    return run([lane](ir::GraphBuilder& b, Products& p) { return p.product(b, lane); }).outputs.at(0);
  }

 private:
  const Options o_;
  const int64_t n_matrices_;
  const std::vector<float> scales_[2], biases_[2], residual_;
  NamedWeights weights_;
  ir::ValueId x_ = ir::kNone, ids_ = ir::kNone, residual_id_ = ir::kNone;
};

std::string lane_label(const Options& o) {
  std::string label = o.experts ? "MUL_MAT_ID" : "MUL_MAT";
  if (o.scale) label += o.experts ? "+GET_ROWS+MUL" : "+MUL";
  if (o.bias) label += o.experts ? "+ADD_ID" : "+ADD";
  return o.residual ? label + "+ADD" : label;
}

TEST(MatmulEpilogues, ScaleBiasAndResidualFollowTheSumBitForBit) {
  for (const Options& o :
       {Options{.scale = true}, Options{.scale = true, .bias = true}, Options{.scale = true, .residual = true},
        Options{.dtype = DType::q4_k, .bias = true}, Options{.dtype = DType::f16, .residual = true, .n_tokens = 1},
        Options{.experts = true, .scale = true}, Options{.experts = true, .scale = true, .bias = true},
        Options{.experts = true, .scale = true, .bias = true, .n_tokens = 1},
        Options{.dtype = DType::iq4_nl, .experts = true, .bias = true}}) {
    SCOPED_TRACE(lane_label(o));
    Products products(o);
    const std::vector<float> sums = products.sums(0);
    const GraphRun run = products.run([](ir::GraphBuilder& b, Products& p) { return p.lane(b, 0); });
    ASSERT_TRUE(run.has(lane_label(o)));
    for (int64_t row = 0; row < products.n_rows(); ++row)
      for (int64_t i = 0; i < kOut; ++i) {
        const auto at = static_cast<size_t>(row * kOut + i);
        ASSERT_EQ(run.outputs[0][at], products.finished(0, row, i, sums[at])) << row << " " << i;
      }
  }
}

TEST(MatmulEpilogues, GateAndUpFollowTheirLanes) {
  constexpr double kAlpha = 1.702, kLimit = 1.5;
  for (bool experts : {false, true})
    for (bool scale : {false, true})
      for (bool bias : {false, true})
        for (int64_t n_tokens : {1, 7}) {
          const Options o{.dtype = scale ? DType::nvfp4 : DType::q5_k,
                          .experts = experts,
                          .scale = scale,
                          .bias = bias,
                          .n_tokens = n_tokens};
          SCOPED_TRACE(lane_label(o));
          Products products(o);
          const std::vector<float> gate = products.sums(0), up = products.sums(1);
          for (GemmGlu glu : kGemmGlus) {
            const GraphRun run = products.run([glu](ir::GraphBuilder& b, Products& p) {
              const ir::ValueId first = p.lane(b, 0), second = p.lane(b, 1);
              return b.glu(first, second,
                           ir::GluParams{.kind = static_cast<ir::Glu>(glu), .alpha = kAlpha, .limit = kLimit});
            });
            ASSERT_TRUE(run.has(lane_label(o) + "+" + lane_label(o) + "+GLU"));
            for (int64_t row = 0; row < products.n_rows(); ++row)
              for (int64_t i = 0; i < kOut; ++i) {
                const auto at = static_cast<size_t>(row * kOut + i);
                const float g = products.finished(0, row, i, gate[at]), u = products.finished(1, row, i, up[at]);
                const GluValue exact = glu_value(glu, double{g}, double{u}, kAlpha, kLimit);
                ASSERT_LE(std::abs(double{run.outputs[0][at]} - exact.y), exact.bound)
                    << static_cast<int>(glu) << " " << row << " " << i;
              }
          }
        }
}

TEST(MatmulEpilogues, ObserverSeesTheExpertsOfEveryToken) {
  Products products({.dtype = DType::q8_0, .experts = true, .bias = true});
  std::vector<std::string> seen;
  CompileOptions options;
  options.matmul_observer = [&](const MatmulInput& input) {
    seen.emplace_back(input.weight);
    EXPECT_EQ(input.n_rows, 7);
    EXPECT_EQ(input.k, kIn);
    EXPECT_EQ(input.n_matrices, kExperts);
    ASSERT_EQ(input.n_used, kUsed);
    EXPECT_EQ(input.n_tokens, 7);
    for (int64_t t = 0; t < 7; ++t)
      for (int64_t i = 0; i < kUsed; ++i)
        EXPECT_EQ(input.ids[t * input.ids_stride_elems + i], products.expert(t * kUsed + i));
  };
  products.run(
      [](ir::GraphBuilder& b, Products& p) {
        const ir::ValueId gate = p.lane(b, 0), up = p.lane(b, 1);
        return b.glu(gate, up, ir::Glu::swiglu);
      },
      options);
  EXPECT_EQ(seen, (std::vector<std::string>{"gate", "up"}));
}

}  // namespace
}  // namespace tokamak::cpu::test
