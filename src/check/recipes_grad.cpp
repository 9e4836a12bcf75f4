// Cases of gradients. All constants are F32 and take part.
#include <fmt/format.h>

#include "check/grad.h"

namespace tokamak::check {

using ir::ValueId;

namespace {

// A decoder block with one head, its attention written out: norm, rotated queries and keys, softmax over all tokens,
// residual, norm, gated feed-forward, residual, norm, logits, loss. Logits are results too: a loss alone is one f32,
// whose rounding hides small differences.
ValueId block(CaseBuilder& c) {
  constexpr int64_t kEmbd = 12, kFf = 16, kVocab = 10;
  const auto matrix = [&](int64_t n_out, int64_t n_in) { return c.weight(DType::f32, {n_out, n_in}, {-0.5, 0.5}); };
  const auto normed = [&](ValueId x) {
    return c.b.mul(c.b.rms_norm(x, 1e-5), c.weight(DType::f32, {kEmbd}, {0.5, 1.5}));
  };
  const auto rotated = [&](ValueId x) {
    x = c.b.reshape(x, {c.n_tokens, 1, kEmbd});
    x = c.b.rope(x, c.positions(), {.n_rot = 8, .pairing = ir::RopePairing::neox, .theta = 100});
    return c.b.reshape(x, {c.n_tokens, kEmbd});
  };
  ValueId x = c.tensor({kEmbd});
  const ValueId y = normed(x);
  const ValueId q = rotated(c.b.mul_mat(matrix(kEmbd, kEmbd), y)), k = rotated(c.b.mul_mat(matrix(kEmbd, kEmbd), y));
  // Values with the tokens in their columns, [n_tokens * n_embd, n_tokens]: the weight is an activation, so it has rows
  // for every token.
  const ValueId wide = c.b.reshape(c.tensor({kEmbd * kEmbd}), {c.n_tokens * kEmbd, kEmbd});
  const ValueId v_columns = c.b.mul_mat(y, wide);
  const ValueId probs = c.b.soft_max(c.b.scale(c.b.mul_mat(k, q), 0.29));
  x = c.b.add(x, c.b.mul_mat(matrix(kEmbd, c.n_tokens * kEmbd), c.b.mul_mat(v_columns, probs)));
  const ValueId z = normed(x);
  const ValueId gated =
      c.b.glu(c.b.mul_mat(matrix(kFf, kEmbd), z), c.b.mul_mat(matrix(kFf, kEmbd), z), ir::Glu::swiglu);
  x = c.b.add(x, c.b.mul_mat(matrix(kEmbd, kFf), gated));
  const ValueId logits = c.b.mul_mat(matrix(kVocab, kEmbd), normed(x));
  c.b.output(logits);
  return c.b.node(ir::Op::cross_entropy_loss, {logits, c.b.soft_max(c.tensor({kVocab}, {-3, 3}))});
}

}  // namespace

std::vector<Recipe> grad_recipes() {
  std::vector<Recipe> out;
  const auto add = [&](std::string op, std::string variant, std::function<ValueId(CaseBuilder&)> build) {
    for (int64_t n : {1, 5})
      out.push_back({.subject = op,
                     .variant = fmt::format("{}{}n={}", variant, variant.empty() ? "" : " ", n),
                     .build = [build](CaseBuilder& c) { c.b.output(build(c)); },
                     .sequences = {{.n_tokens = n, .n_past = 6}}});
  };
  add("MUL_MAT", "", [](CaseBuilder& c) { return c.b.mul_mat(c.weight(DType::f32, {7, 9}), c.tensor({9})); });
  add("MUL_MAT", "heads=3", [](CaseBuilder& c) {
    return c.b.mul_mat(c.weight(DType::f32, {3, 4, 6}), c.tensor({3, 6}));
  });
  add("MUL_MAT", "weight=computed", [](CaseBuilder& c) { return c.b.mul_mat(c.tensor({9}), c.tensor({9})); });
  add("ADD", "b=tensor", [](CaseBuilder& c) { return c.b.add(c.tensor({9}), c.tensor({9})); });
  add("ADD", "b=vector", [](CaseBuilder& c) { return c.b.add(c.tensor({9}), c.weight(DType::f32, {9})); });
  add("MUL", "b=tensor", [](CaseBuilder& c) { return c.b.mul(c.tensor({9}), c.tensor({9})); });
  add("MUL", "b=vector", [](CaseBuilder& c) { return c.b.mul(c.tensor({3, 5}), c.weight(DType::f32, {5})); });
  add("MUL", "b=column", [](CaseBuilder& c) { return c.b.mul(c.tensor({9}), c.tensor({1})); });
  add("SCALE", "", [](CaseBuilder& c) { return c.b.scale(c.tensor({9}), -1.7, 0.3); });
  add("UNARY", "f=silu", [](CaseBuilder& c) { return c.b.unary(c.tensor({9}, {-4, 4}), ir::Unary::silu); });
  add("GLU", "f=swiglu operands=2", [](CaseBuilder& c) {
    return c.b.glu(c.tensor({9}, {-3, 3}), c.tensor({9}), ir::Glu::swiglu);
  });
  add("GLU", "f=swiglu operands=1", [](CaseBuilder& c) { return c.b.glu_halves(c.tensor({12}, {-3, 3}), {}); });
  add("RMS_NORM", "", [](CaseBuilder& c) { return c.b.rms_norm(c.tensor({11}, {-2, 3}), 1e-5); });
  add("SOFT_MAX", "", [](CaseBuilder& c) { return c.b.soft_max(c.tensor({9}, {-2, 2})); });
  for (ir::RopePairing pairing : {ir::RopePairing::norm, ir::RopePairing::neox})
    add("ROPE", fmt::format("pairing={}", ir::kRopePairings[static_cast<size_t>(pairing)]), [=](CaseBuilder& c) {
      return c.b.rope(c.tensor({2, 10}), c.positions(),
                      {.n_rot = 8, .pairing = pairing, .theta = 50, .attn_factor = 1.2});
    });
  add("GET_ROWS", "", [](CaseBuilder& c) { return c.tensor({9}); });
  add("VIEW", "", [](CaseBuilder& c) { return c.b.scale(c.tensor({3, 5}, {}, Layout::slice), 2); });
  add("CROSS_ENTROPY_LOSS", "", [](CaseBuilder& c) {
    const ValueId logits = c.tensor({9}, {-2, 2});
    return c.b.node(ir::Op::cross_entropy_loss, {logits, c.tensor({9}, {0, 1})});
  });
  add("BLOCK", "llama", block);
  return out;
}

}  // namespace tokamak::check
