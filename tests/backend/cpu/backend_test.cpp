// One transformer layer through the whole CPU backend: packing, fusion, lowering, kernels, threads. Instruction sets
// and thread counts change no bit; the reference backend says what is right.
#include "backend/cpu/backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "backend/cpu/matmul_helpers.h"
#include "backend/reference/backend.h"
#include "ir/builder.h"
#include "quant/codec.h"

namespace tokamak::cpu::test {
namespace {

constexpr int64_t kTokens = 9, kEmbd = 256, kHeads = 4, kHeadsKv = 2, kHeadDim = 64, kFf = 512, kVocab = 40;
constexpr int64_t kPageSize = 16, kPages = 2;

class Layer {
 public:
  explicit Layer(DType dtype) : dtype_(dtype) {}

  // Logits of all tokens.
  std::vector<float> run(Backend& backend) {
    auto graph = build();
    EXPECT_TRUE(graph) << graph.error().message();
    const auto lookup = [&](std::string_view name) -> Result<WeightSource> {
      const Matrix& m = weights_.at(std::string(name));
      const Shape shape = m.n_rows == 1 ? Shape{m.k} : Shape{m.n_rows, m.k};
      return WeightSource{.dtype = m.dtype, .shape = shape, .data = m.rows, .forget = {}};
    };
    auto weights = backend.load(*graph, lookup, {});
    EXPECT_TRUE(weights) << weights.error().message();
    auto kv = backend.make_kv({.layers = {{kHeadsKv, kHeadDim, kHeadDim}}, .n_pages = kPages, .page_size = kPageSize});
    EXPECT_TRUE(kv) << kv.error().message();
    auto program = backend.compile(std::move(*graph), **weights, **kv, {});
    EXPECT_TRUE(program) << program.error().message();

    std::vector<int32_t> tokens(kTokens), positions(kTokens), slots(kTokens), rows(kTokens), seq_ids(kTokens, 0);
    std::iota(positions.begin(), positions.end(), 0);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % kVocab);
    std::iota(slots.begin(), slots.end(), static_cast<int32_t>(kPageSize));  // the second page comes first
    const int32_t pages[] = {1, 0};
    const SequencePages sequence{.pages = pages};
    std::vector<float> logits(static_cast<size_t>(kTokens * kVocab), std::nanf(""));
    const std::span<float> output = logits;
    const auto ran = (*program)->run({.tokens = tokens,
                                      .positions = positions,
                                      .seq_ids = seq_ids,
                                      .slots = slots,
                                      .out_rows = {},
                                      .sequences = {&sequence, 1}},
                                     {&output, 1});
    EXPECT_TRUE(ran) << ran.error().message();
    return logits;
  }

 private:
  Result<ir::Graph> build() {
    ir::GraphBuilder b("layer");
    const auto positions = b.input(ir::InputRole::positions, {kTokens});
    const auto slots = b.input(ir::InputRole::slots, {kTokens});
    const auto seq_ids = b.input(ir::InputRole::seq_ids, {kTokens});
    const auto normed = [&](ir::ValueId x, const char* name) {
      return b.mul(b.rms_norm(x, 1e-5), weight(b, name, DType::f32, 1, kEmbd));
    };
    const auto linear = [&](const char* name, ir::ValueId x, int64_t n_out, int64_t n_in) {
      return b.mul_mat(weight(b, name, dtype_, n_out, n_in), x);
    };
    const auto cached = [&](ir::StateRole role, ir::ValueId x) {
      const auto state = b.state(role, 0, DType::f16, {kPages * kPageSize, kHeadsKv, kHeadDim});
      return b.set_rows(state, x, slots);
    };
    const auto x = b.get_rows(weight(b, "embd", dtype_, kVocab, kEmbd), b.input(ir::InputRole::tokens, {kTokens}));
    const auto h = normed(x, "attn_norm");
    const ir::RopeParams rope{.n_rot = kHeadDim, .pairing = ir::RopePairing::neox};
    const auto q = b.rope(b.reshape(linear("q", h, kEmbd, kEmbd), {kTokens, kHeads, kHeadDim}), positions, rope);
    const auto k =
        b.rope(b.reshape(linear("k", h, kHeadsKv * kHeadDim, kEmbd), {kTokens, kHeadsKv, kHeadDim}), positions, rope);
    const auto v = b.reshape(linear("v", h, kHeadsKv * kHeadDim, kEmbd), {kTokens, kHeadsKv, kHeadDim});
    const auto keys = cached(ir::StateRole::kv_k, k), values = cached(ir::StateRole::kv_v, v);
    const auto attention = b.flash_attn_ext(q, keys, values, positions, seq_ids, {.scale = 0.125});
    const auto y = b.add(linear("o", b.reshape(attention, {kTokens, kEmbd}), kEmbd, kEmbd), x);
    const auto f = normed(y, "ffn_norm");
    const auto gated = b.glu(linear("gate", f, kFf, kEmbd), linear("up", f, kFf, kEmbd), ir::Glu::swiglu);
    const auto z = b.add(linear("down", gated, kEmbd, kFf), y);
    b.output(linear("output", normed(z, "output_norm"), kVocab, kEmbd));
    return b.finish();
  }
  ir::ValueId weight(ir::GraphBuilder& b, const std::string& name, DType dtype, int64_t n_rows, int64_t k) {
    const auto seed = static_cast<uint32_t>(weights_.size());
    if (!weights_.contains(name)) weights_[name] = encoded(dtype, n_rows, k, seed);
    return b.weight(name, dtype, n_rows == 1 ? Shape{k} : Shape{n_rows, k});
  }

  // Normal values that keep the size of what they multiply.
  static Matrix encoded(DType dtype, int64_t n_rows, int64_t k, uint32_t seed) {
    Matrix m{dtype, n_rows, k, {}};
    m.rows.resize(static_cast<size_t>(n_rows) * m.row_bytes());
    const auto x = random_floats(static_cast<size_t>(n_rows * k), seed, n_rows == 1 ? 1.0f : 0.0625f);
    for (int64_t r = 0; r < n_rows; ++r)
      EXPECT_TRUE(
          encode_row(dtype, x.data() + r * k, k, nullptr, m.rows.data() + static_cast<size_t>(r) * m.row_bytes()));
    return m;
  }

  DType dtype_;
  std::map<std::string, Matrix> weights_;
};

std::unique_ptr<Backend> cpu_backend(std::string isa, int64_t n_threads, std::string_view activations) {
  auto backend =
      make_cpu_backend({.isa = std::move(isa), .n_threads = n_threads, .activations = std::string(activations)});
  EXPECT_TRUE(backend) << backend.error().message();
  return std::move(*backend);
}

class CpuBackendLayer : public testing::TestWithParam<DType> {};

TEST_P(CpuBackendLayer, SameBitsOnEveryInstructionSetAndCloseToTheReference) {
  Layer layer(GetParam());
  const std::vector<float> reference = layer.run(*make_reference_backend());
  double size = 0;
  for (float y : reference) size += std::pow(double{y}, 2);
  ASSERT_GT(size, 0);
  for (ActivationKind kind : {ActivationKind::int8, ActivationKind::int16}) {
    const std::string_view activations = activation_format(kind).name;
    const std::vector<float> expected = layer.run(*cpu_backend("scalar", 1, activations));
    for (const IsaRow& row : kIsas)
      for (int64_t n_threads : {1, 3})
        if (isa_available(row.isa)) {
          EXPECT_EQ(layer.run(*cpu_backend(std::string(row.name), n_threads, activations)), expected)
              << row.name << " " << n_threads << " " << activations;
        }
    double error = 0;
    for (size_t i = 0; i < reference.size(); ++i) error += std::pow(double{expected[i]} - double{reference[i]}, 2);
    // One product of codes is off by (peak / max_code)^2 / 12 of its square, peak = largest / rms of a group, below 9
    // here; five products follow each other (v, o, up, down, output). The rest: f32 and the f16 cache round.
    const double step = 9.0 / activation_format(kind).max_code;
    const bool is_f32 = activation_kind(GetParam(), kind) == ActivationKind::f32;
    EXPECT_LE(error, (1e-6 + (is_f32 ? 0 : 5 * step * step / 12)) * size) << error / size << " " << activations;
  }
}

// Every packed type with an encoder, and one type without a packed form.
INSTANTIATE_TEST_SUITE_P(Types, CpuBackendLayer,
                         testing::Values(DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k,
                                         DType::q6_k, DType::f16, DType::bf16, DType::f32, DType::iq4_nl),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST(CpuBackend, ForeignInstructionSetIsAnErrorThatNamesTheAvailableOnes) {
  for (const IsaRow& row : kIsas) {
    if (isa_available(row.isa)) continue;
    const auto backend = make_cpu_backend({.isa = std::string(row.name)});
    ASSERT_FALSE(backend);
    EXPECT_EQ(backend.error().code, ErrorCode::bad_argument);
    EXPECT_NE(backend.error().hint.find("scalar"), std::string::npos) << backend.error().message();
  }
}

}  // namespace
}  // namespace tokamak::cpu::test
