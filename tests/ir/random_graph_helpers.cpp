#include "ir/random_graph_helpers.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "ir/builder.h"

namespace tokamak::ir {

namespace {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : rng_(seed), b_(fmt::format("random \"{}\" \\ \n", seed)) {}

  Graph make() {
    n_tokens_ = pick(1, 5);
    positions_ = b_.input(InputRole::positions, {n_tokens_});
    seq_ids_ = b_.input(InputRole::seq_ids, {n_tokens_});
    slots_ = b_.input(InputRole::slots, {n_tokens_});
    pool_.push_back(b_.get_rows(weight(64, 32), b_.input(InputRole::tokens, {n_tokens_}), "embd"));
    for (int64_t i = pick(1, 40); i > 0; --i) step();
    for (int64_t i = pick(1, 3); i > 0; --i) b_.output(any());
    auto graph = b_.finish();
    CHECK(graph.has_value(), graph ? "" : graph.error().message());
    return std::move(*graph);
  }

 private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng_); }
  double number() { return std::normal_distribution<double>(0, 1)(rng_) * std::pow(10.0, double(pick(-20, 20))); }
  std::string name() {
    switch (pick(0, 3)) {
      case 0:
        return "";
      case 1:
        return fmt::format("blk.{}.x", n_names_++);
      case 2:
        return fmt::format("odd \"{}\"\\\t\x80 %3 = #", n_names_++);
      default:
        return fmt::format("3_{}", n_names_++);
    }
  }
  ValueId any() { return pool_[static_cast<size_t>(pick(0, static_cast<int64_t>(pool_.size()) - 1))]; }
  ValueId weight(int64_t n_out, int64_t n_in) {
    constexpr DType types[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_1};
    const DType type = n_in % 32 == 0 ? types[pick(0, 4)] : types[pick(0, 2)];
    return b_.weight(fmt::format("weight {} \xC3\xA9", n_names_++), type, {n_out, n_in});
  }
  ValueId vector(int64_t n) { return b_.weight(fmt::format("vector.{}", n_names_++), DType::f32, {n}); }

  void step() {
    const ValueId x = any();
    const int64_t width = b_.shape_of(x)[-1];
    switch (pick(0, 9)) {
      case 0:
        return keep(b_.add(x, pick(0, 1) ? x : vector(width), name()));
      case 1:
        return keep(b_.mul(b_.rms_norm(x, 1e-6 * double(pick(0, 9)), name()), vector(width), name()));
      case 2:
        return keep(b_.scale(x, pick(0, 3) ? number() : 1.0, pick(0, 1) ? number() : 0.0, name()));
      case 3:
        return keep(b_.unary(x, static_cast<Unary>(pick(0, int64_t{kUnaries.size()} - 1)), name()));
      case 4:
        return keep(b_.glu(x, x, static_cast<Glu>(pick(0, int64_t{kGlus.size()} - 1)), name()));
      case 5:
        return keep(b_.norm(b_.reshape(b_.reshape(x, {b_.shape_of(x).n_elements()}), b_.shape_of(x)), 1e-5, name()));
      case 6:
        return keep(b_.mul_mat(weight(8 * pick(1, 4), width), x, name()));
      case 7:
        return slice(x, width);
      case 8:
        return keep(b_.node(Op::glu, {x}, {{Attr::glu, int64_t{2}}}, name()));
      default:
        return attention(x, width);
    }
  }
  // Keeps 2-D contiguous results whose width is a multiple of 8.
  void keep(ValueId x) {
    if (b_.shape_of(x)[-1] % 8 == 0) pool_.push_back(x);
  }
  void slice(ValueId x, int64_t width) {
    if (width < 16) return;
    const ValueId part = b_.view(b_.view(x, 0, {n_tokens_, width - 1}), pick(0, 7), {n_tokens_, 8}, name());
    keep(b_.rms_norm(part, 1e-5, name()));
  }
  void attention(ValueId x, int64_t width) {
    const Shape heads{n_tokens_, width / 8, 8};
    RopeParams rope{.n_rot = 2 * pick(1, 4), .theta = std::abs(number()) + 1, .n_ctx_orig = pick(0, 1 << 20)};
    std::optional<ValueId> factors, sinks;
    if (pick(0, 1)) factors = vector(rope.n_rot / 2);
    if (pick(0, 1)) sinks = vector(heads[1]);
    const ValueId q = b_.rope(b_.reshape(x, heads), positions_, rope, factors, name());
    const ValueId cache_k = b_.state(StateRole::kv_k, n_layers_, DType::f16, {32, 1, 8});
    const ValueId cache_v = b_.state(StateRole::kv_v, n_layers_++, DType::f32, {32, 1, 8});
    const ValueId row = b_.reshape(b_.mul_mat(weight(8, width), x), {n_tokens_, 1, 8});
    const ValueId k = b_.set_rows(cache_k, row, slots_, name()), v = b_.set_rows(cache_v, row, slots_, name());
    const ValueId y =
        b_.flash_attn_ext(q, k, v, positions_, seq_ids_, {.scale = number(), .window = pick(0, 99)}, sinks);
    keep(b_.reshape(y, {n_tokens_, width}, name()));
  }

  std::mt19937 rng_;
  GraphBuilder b_;
  std::vector<ValueId> pool_;
  int64_t n_tokens_ = 0;
  int32_t n_layers_ = 0;
  int n_names_ = 0;
  ValueId positions_ = kNone, seq_ids_ = kNone, slots_ = kNone;
};

}  // namespace

Graph random_graph(uint32_t seed) { return RandomGraph(seed).make(); }

}  // namespace tokamak::ir
