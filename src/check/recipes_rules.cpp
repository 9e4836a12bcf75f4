// Fusion rules around norms, rotations, chains and element-wise pairs.
#include <fmt/format.h>

#include "check/recipes.h"

namespace tokamak::check {

using fuse::RuleId;
using ir::ValueId;

namespace {

constexpr int64_t kTokens[] = {1, 2, 7, 33};
constexpr int64_t kWidths[] = {7, 64, 100, 333};

using Build = std::function<void(CaseBuilder& c, int64_t width, Layout layout)>;
void add_rows(std::vector<Recipe>& out, std::string label, RuleId rule, std::string_view variant, const Build& build) {
  for (int64_t n : kTokens)
    for (int64_t width : kWidths)
      for (Layout layout : {Layout::whole, Layout::slice}) {
        if (rule == RuleId::snake && n == 1) continue;  // one channel: its factors are no columns but single numbers
        out.push_back({.subject = label,
                       .variant = fmt::format("{}{}n={} width={} layout={}", variant, variant.empty() ? "" : " ", n,
                                              width, layout == Layout::slice ? "slice" : "whole"),
                       .build = [=](CaseBuilder& c) { build(c, width, layout); },
                       .sequences = {{.n_tokens = n}},
                       .rule = rule});
      }
}

void add_norms(std::vector<Recipe>& out, std::string op, RuleId mul, RuleId mul_add) {
  const bool centred = op == "NORM";
  const auto normed = [=](CaseBuilder& c, ValueId x, int64_t width) {
    const ValueId y = centred ? c.b.norm(x, 1e-5) : c.b.rms_norm(x, 1e-5);
    return c.b.mul(y, c.weight(DType::f32, {width}));
  };
  add_rows(out, op + "+MUL", mul, "", [=](CaseBuilder& c, int64_t width, Layout layout) {
    c.b.output(normed(c, c.tensor({width}, {}, layout), width));
  });
  add_rows(out, op + "+MUL", mul, "heads=3", [=](CaseBuilder& c, int64_t width, Layout layout) {
    c.b.output(normed(c, c.tensor({3, width}, {}, layout), width));
  });
  add_rows(out, op + "+MUL+ADD", mul_add, "addend=bias", [=](CaseBuilder& c, int64_t width, Layout layout) {
    const ValueId y = normed(c, c.tensor({width}, {}, layout), width);
    c.b.output(c.b.add(y, c.weight(DType::f32, {width})));
  });
  add_rows(out, op + "+MUL+ADD", mul_add, "addend=residual", [=](CaseBuilder& c, int64_t width, Layout layout) {
    const ValueId residual = c.tensor({width}, {}, layout);
    c.b.output(c.b.add(normed(c, c.tensor({width}, {}, layout), width), residual));
  });
}

struct RotateCase {
  bool norm, write;
  std::string_view label;
  RuleId rule;
};
constexpr RotateCase kRotate[] = {{true, false, "RMS_NORM+MUL+ROPE", RuleId::rms_norm_mul_rope},
                                  {true, true, "RMS_NORM+MUL+ROPE+VIEW+SET_ROWS", RuleId::rms_norm_mul_rope_set_rows},
                                  {false, true, "ROPE+VIEW+SET_ROWS", RuleId::rope_set_rows}};

// Written to the values, which the check reads back.
void build_rotation(CaseBuilder& c, const RotateCase& r, int64_t head_dim, int64_t n_rot, const ir::RopeParams& params,
                    Layout layout) {
  const ValueId positions = c.positions(), slots = c.slots();
  ValueId x = c.tensor({2, head_dim}, {}, layout);
  if (r.norm) x = c.b.mul(c.b.rms_norm(x, 1e-6), c.weight(DType::f32, {head_dim}));
  ir::RopeParams p = params;
  p.n_rot = n_rot;
  x = c.b.rope(x, positions, p);
  if (!r.write) return c.b.output(x);
  c.b.set_rows(c.cache(2, head_dim, head_dim).v, x, slots);
}

void add_rotations(std::vector<Recipe>& out) {
  for (const RotateCase& r : kRotate)
    for (const auto& [head_dim, n_rot] : {std::pair<int64_t, int64_t>{64, 64}, {80, 64}, {128, 32}, {33, 16}})
      for (ir::RopePairing pairing : {ir::RopePairing::norm, ir::RopePairing::neox})
        for (int64_t n : kTokens)
          for (DType type : kCacheDTypes)
            for (Layout layout : {Layout::whole, Layout::slice}) {
              if (r.write ? !has_whole_blocks(type, head_dim) : type != DType::f32) continue;
              out.push_back(
                  {.subject = std::string(r.label),
                   .variant = fmt::format("type={} dim={} n_rot={} pairing={} n={} layout={}", dtype_name(type),
                                          head_dim, n_rot, ir::kRopePairings[static_cast<size_t>(pairing)], n,
                                          layout == Layout::slice ? "slice" : "whole"),
                   .build =
                       [=, head_dim = head_dim, n_rot = n_rot](CaseBuilder& c) {
                         c.cache_type = type;
                         build_rotation(c, r, head_dim, n_rot, {.pairing = pairing}, layout);
                       },
                   .sequences = {{.n_tokens = n, .n_past = 21}},
                   .rule = r.rule});
            }
}

void add_chains(std::vector<Recipe>& out) {
  for (int length = 2; length <= 7; ++length)
    for (bool is_add : {true, false}) {
      std::string label = is_add ? "ADD" : "MUL";
      for (int i = 1; i < length; ++i) label += is_add ? "+ADD" : "+MUL";
      const auto first = is_add ? RuleId::add_2 : RuleId::mul_2;
      const auto rule = static_cast<RuleId>(static_cast<int>(first) + length - 2);
      for (bool vectors : {false, true})
        add_rows(out, label, rule, vectors ? "operands=vectors" : "operands=tensors",
                 [=](CaseBuilder& c, int64_t width, Layout layout) {
                   ValueId x = c.tensor({width}, {}, layout);
                   std::vector<ValueId> operands;
                   for (int i = 0; i < length; ++i)
                     operands.push_back(vectors ? c.weight(DType::f32, {width}, {-2, 2})
                                                : c.tensor({width}, {-2, 2}, layout));
                   for (ValueId y : operands) x = is_add ? c.b.add(x, y) : c.b.mul(x, y);
                   c.b.output(x);
                 });
    }
}

void add_pairs(std::vector<Recipe>& out) {
  for (const auto& [label, function] : {std::pair{"SILU+MUL", ir::Unary::silu},
                                        {"SIGMOID+MUL", ir::Unary::sigmoid},
                                        {"SOFTPLUS+MUL", ir::Unary::softplus}})
    for (bool swapped : {false, true})
      add_rows(out, label, RuleId::unary_mul, swapped ? "side=right" : "side=left",
               [=, function = function](CaseBuilder& c, int64_t width, Layout layout) {
                 const ValueId other = c.tensor({width}, {}, layout);
                 const ValueId f = c.b.unary(c.tensor({width}, {-8, 8}, layout), function);
                 c.b.output(swapped ? c.b.mul(other, f) : c.b.mul(f, other));
               });
  add_rows(out, "RELU+SQR", RuleId::relu_sqr, "", [](CaseBuilder& c, int64_t width, Layout layout) {
    c.b.output(c.b.unary(c.b.unary(c.tensor({width}, {-3, 3}, layout), ir::Unary::relu), ir::Unary::sqr));
  });
  for (const auto& [scale, cap] : {std::pair{1 / 30.0, 30.0}, {2.0, 0.5}, {0.25, -3.0}})
    add_rows(out, "SCALE+TANH+SCALE", RuleId::softcap, fmt::format("scale={:.3f} cap={}", scale, cap),
             [scale = scale, cap = cap](CaseBuilder& c, int64_t width, Layout layout) {
               const ValueId x = c.tensor({width}, {-40, 40}, layout);
               c.b.output(c.b.scale(c.b.unary(c.b.scale(x, scale), ir::Unary::tanh), cap));
             });
  for (bool swapped : {false, true})
    add_rows(out, "MUL+SIN+SQR+MUL+ADD", RuleId::snake, swapped ? "x=right" : "x=left",
             [=](CaseBuilder& c, int64_t width, Layout) {
               const ValueId x = c.tensor({width});
               const ValueId a = c.weight(DType::f32, {c.n_tokens, 1}, {0.2, 4}),
                             inverse = c.weight(DType::f32, {c.n_tokens, 1}, {0.2, 4});
               const ValueId s = c.b.unary(c.b.unary(c.b.mul(x, a), ir::Unary::sin), ir::Unary::sqr);
               const ValueId y = c.b.mul(s, inverse);
               c.b.output(swapped ? c.b.add(y, x) : c.b.add(x, y));
             });
}

}  // namespace

void add_norm_rules(std::vector<Recipe>& out) {
  add_norms(out, "NORM", RuleId::norm_mul, RuleId::norm_mul_add);
  add_norms(out, "RMS_NORM", RuleId::rms_norm_mul, RuleId::rms_norm_mul_add);
  add_rotations(out);
  add_chains(out);
  add_pairs(out);
}

}  // namespace tokamak::check
