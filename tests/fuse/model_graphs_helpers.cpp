#include "fuse/model_graphs_helpers.h"

#include <fmt/format.h>

#include "ir/builder.h"

namespace tokamak::fuse {

namespace {

using ir::StateRole;
using ir::ValueId;

constexpr int64_t kTokens = 4, kHeads = 4, kHeadsKv = 2, kHeadDim = 16, kEmbd = 64, kFf = 96, kVocab = 128;

class Model {
 public:
  explicit Model(const ModelShape& shape) : shape_(shape) {}

  ir::Graph make() {
    ValueId x =
        b_.get_rows(b_.weight("token_embd", DType::q8_0, {kVocab, kEmbd}), b_.input(ir::InputRole::tokens, {kTokens}));
    for (layer_ = 0; layer_ < shape_.n_layers; ++layer_) {
      x = join(linear(attention(norm(x, "attn_norm")), "attn_output", kEmbd), x, "post_attention_norm");
      const ValueId y = norm(x, "ffn_norm");
      const ValueId gate = linear(y, "ffn_gate", kFf), up = linear(y, "ffn_up", kFf);
      x = join(linear(b_.glu(gate, up, ir::Glu::swiglu), "ffn_down", kEmbd), x, "post_ffw_norm");
    }
    ValueId logits = linear(norm(x, "output_norm"), "output", kVocab);
    if (shape_.logit_softcap) logits = b_.scale(b_.unary(b_.scale(logits, 1 / 30.0), ir::Unary::tanh), 30);
    b_.output(logits);
    auto graph = b_.finish();
    CHECK(graph.has_value(), graph ? "" : graph.error().message());
    return std::move(*graph);
  }

 private:
  std::string name(std::string_view what) const { return fmt::format("{}.{}", layer_, what); }

  ValueId norm(ValueId x, std::string_view what) {
    return b_.mul(b_.rms_norm(x, 1e-5), b_.weight(name(what), DType::f32, {b_.shape_of(x)[-1]}));
  }
  ValueId linear(ValueId x, std::string_view what, int64_t n_out) {
    return b_.mul_mat(b_.weight(name(what), DType::q8_0, {n_out, b_.shape_of(x)[-1]}), x);
  }
  ValueId project(ValueId x, std::string_view what, int64_t n_out) {
    const ValueId y = linear(x, what, n_out);
    if (!shape_.qkv_bias) return y;
    return b_.add(y, b_.weight(name(what) + "_bias", DType::f32, {n_out}));
  }
  ValueId join(ValueId y, ValueId residual, std::string_view what) {
    return b_.add(shape_.post_norm ? norm(y, what) : y, residual);
  }
  ValueId heads(ValueId x, std::string_view norm_name, int64_t n_head) {
    x = b_.reshape(x, {kTokens, n_head, kHeadDim});
    if (shape_.qk_norm) x = norm(x, norm_name);
    return b_.rope(x, b_.input(ir::InputRole::positions, {kTokens}), {.n_rot = kHeadDim});
  }
  ValueId attention(ValueId x) {
    const ValueId q_proj = project(x, "q", kHeads * kHeadDim), k_proj = project(x, "k", kHeadsKv * kHeadDim),
                  v_proj = project(x, "v", kHeadsKv * kHeadDim);
    const Shape cache{256, kHeadsKv, kHeadDim};
    const ValueId slots = b_.input(ir::InputRole::slots, {kTokens});
    const ValueId q = heads(q_proj, "q_norm", kHeads);
    const ValueId k =
        b_.set_rows(b_.state(StateRole::kv_k, layer_, DType::f16, cache), heads(k_proj, "k_norm", kHeadsKv), slots);
    const ValueId v = b_.set_rows(b_.state(StateRole::kv_v, layer_, DType::f16, cache),
                                  b_.reshape(v_proj, {kTokens, kHeadsKv, kHeadDim}), slots);
    const ValueId y = b_.flash_attn_ext(q, k, v, b_.input(ir::InputRole::positions, {kTokens}),
                                        b_.input(ir::InputRole::seq_ids, {kTokens}), {.scale = 0.25});
    return b_.reshape(y, {kTokens, kHeads * kHeadDim});
  }

  ModelShape shape_;
  ir::GraphBuilder b_{"model"};
  int32_t layer_ = 0;
};

}  // namespace

ir::Graph model_graph(const ModelShape& shape) { return Model(shape).make(); }

}  // namespace tokamak::fuse
