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
    const int64_t n_seqs = pick(1, n_tokens_);
    recurrent_ = {.seq_ids = seq_ids_,
                  .state_src = b_.input(InputRole::state_src, {n_seqs}),
                  .state_rows = b_.input(InputRole::state_rows, {n_seqs}),
                  .n_snapshots = pick(1, 3)};
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
    switch (pick(0, 19)) {
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
        return keep(
            b_.glu_halves(x, {.kind = Glu::swiglu_oai, .alpha = number(), .limit = std::abs(number())}, name()));
      case 9:
        return attention(x, width);
      case 10:
        return keep(b_.sub(x, pick(0, 1) ? b_.sum_rows(x, name()) : vector(1), name()));
      case 11:
        return keep(b_.div(x, b_.clamp(b_.sum_rows(x), std::abs(number()), 1e30, name()), name()));
      case 12:
        return keep(pick(0, 1) ? b_.soft_max(x, name()) : b_.l2_norm(x, 1e-6, name()));
      case 13:
        return keep(b_.concat(x, any(), name()));
      case 14:
        return keep(b_.cont(b_.view(x, 0, {n_tokens_, 8}), name()));
      case 15:
        return heads(x, width);
      case 16:
        return experts(x, width);
      case 17:
        return convolution(x, width);
      case 18:
        return delta_net(x, width);
      default:
        return keep(b_.reshape(b_.node(Op::cross_entropy_loss, {x, x}), {1, 1}));
    }
  }
  void heads(ValueId x, int64_t width) {
    const ValueId y = b_.attn_temp(b_.reshape(x, {n_tokens_, width / 8, 8}), positions_,
                                   {.scale = number(), .length = pick(1, 9999), .offset = pick(0, 1)}, name());
    const ValueId matrices = b_.weight(fmt::format("heads {}", n_names_++), DType::f16, {width / 8, 16, 8});
    keep(b_.reshape(b_.mul_mat(matrices, y, name()), {n_tokens_, width * 2}));
  }
  void experts(ValueId x, int64_t width) {
    const int64_t n_used = pick(1, 8);
    const ValueId masked = b_.mask_groups(x, width / 8, pick(1, width / 8), pick(1, 2), name());
    const ValueId ids = b_.view(b_.argsort(masked, name()), 0, {n_tokens_, n_used});
    const ValueId chosen = b_.get_rows(b_.reshape(x, {n_tokens_, width, 1}), ids, name());
    const ValueId w = b_.weight(fmt::format("experts {}", n_names_++), DType::bf16, {width, 8, width});
    ValueId y = b_.mul_mat_id(w, b_.reshape(x, {n_tokens_, 1, width}), ids, name());
    y = b_.add_id(y, b_.weight(fmt::format("biases {}", n_names_++), DType::f32, {width, 8}), ids, name());
    keep(b_.reshape(b_.mul(y, chosen, name()), {n_tokens_, 8 * n_used}));
  }
  void convolution(ValueId x, int64_t width) {
    const ValueId state = b_.state(StateRole::conv, n_layers_++, DType::f32, {9, 3 * width});
    const ValueId taps = b_.weight(fmt::format("taps {}", n_names_++), DType::f32, {width, 4});
    keep(b_.ssm_conv(x, taps, state, recurrent_, name()));
    b_.cpy(state, b_.ssm_conv_state(x, state, recurrent_, name()), recurrent_.state_rows, name());
  }
  void delta_net(ValueId x, int64_t width) {
    const int64_t n_head = width / 8, n_seqs = b_.shape_of(recurrent_.state_src)[0];
    const ValueId k = b_.l2_norm(b_.reshape(x, {n_tokens_, n_head, 8}), 1e-6, name());
    const ValueId v = b_.reshape(b_.mul_mat(weight(width, width), x), {n_tokens_, n_head, 8});
    const ValueId g = b_.mul_mat(weight(n_head, width), x);
    const ValueId state = b_.state(StateRole::recurrent, n_layers_++, DType::f32, {9, 64 * n_head});
    const ValueId y = b_.gated_delta_net(k, k, v, pick(0, 1) ? v : g, g, state, recurrent_, number(),
                                         static_cast<HeadMap>(pick(0, 1)), name());
    const int64_t n_y = n_tokens_ * width, n_states = n_seqs * recurrent_.n_snapshots;
    keep(b_.reshape(b_.view(y, 0, {n_y}), {n_tokens_, width}));
    const ValueId states = b_.reshape(b_.view(y, n_y, {n_states * 64 * n_head}), {n_states, 64 * n_head});
    b_.cpy(state, states, recurrent_.state_rows, name());
  }
  // Keeps 2-D contiguous results whose width is a multiple of 8 and not large.
  void keep(ValueId x) {
    if (b_.shape_of(x)[-1] % 8 == 0 && b_.shape_of(x)[-1] <= 256) pool_.push_back(x);
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
  RecurrentInputs recurrent_;
  ValueId positions_ = kNone, seq_ids_ = kNone, slots_ = kNone;
};

}  // namespace

Graph random_graph(uint32_t seed) { return RandomGraph(seed).make(); }

}  // namespace tokamak::ir
