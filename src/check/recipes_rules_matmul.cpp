// Fusion rules of matrix products: post-scale, bias, residual, gate and GLU, dense and per expert.
#include <fmt/format.h>

#include "check/recipes.h"

namespace tokamak::check {

using fuse::RuleId;
using ir::ValueId;

namespace {

constexpr int64_t kTokens[] = {1, 2, 7, 33};

// What follows a product of one lane.
struct LaneCase {
  bool scale = false, bias = false;
};

struct DenseCase {
  DType type;
  int64_t n_out, k;
  LaneCase lane;
  bool gate = false, residual = false;
  ir::GluParams glu = {};
};

ValueId dense_lane(CaseBuilder& c, const DenseCase& d, ValueId x) {
  const ValueId w = c.weight(d.type, {d.n_out, d.k});
  ValueId scale = ir::kNone, bias = ir::kNone;
  if (d.lane.scale) scale = c.weight(DType::f32, {1}, {0.5, 2});
  if (d.lane.bias) bias = c.weight(DType::f32, {d.n_out});
  ValueId y = c.b.mul_mat(w, x);
  if (d.lane.scale) y = c.b.mul(y, scale);
  if (d.lane.bias) y = c.b.add(y, bias);
  return y;
}

std::string lane_label(std::string_view product, const LaneCase& lane, bool experts, bool residual = false) {
  std::string label(product);
  if (lane.scale) label += experts ? "+GET_ROWS+MUL" : "+MUL";
  if (lane.bias || residual) label += experts ? "+ADD_ID" : "+ADD";
  return label;
}
std::string label_of(const std::string& lane, bool gate) { return gate ? lane + "+" + lane + "+GLU" : lane; }

void add_dense(std::vector<Recipe>& out, const DenseCase& d, int64_t n, std::string_view note = {}) {
  out.push_back(
      {.subject = label_of(lane_label("MUL_MAT", d.lane, false, d.residual), d.gate),
       .variant = fmt::format("{}type={} n={} n_out={} k={}{}{}", note, dtype_name(d.type), n, d.n_out, d.k,
                              d.gate ? fmt::format(" glu={}", ir::kGlus[static_cast<size_t>(d.glu.kind)]) : "",
                              d.residual    ? " addend=residual"
                              : d.lane.bias ? " addend=bias"
                                            : ""),
       .build =
           [=](CaseBuilder& c) {
             const ValueId residual = d.residual ? c.tensor({d.n_out}) : ir::kNone;
             const ValueId x = c.tensor({d.k});
             const ValueId first = dense_lane(c, d, x);
             if (d.residual) return c.b.output(c.b.add(first, residual));
             c.b.output(d.gate ? c.b.glu(first, dense_lane(c, d, x), d.glu) : first);
           },
       .sequences = {{.n_tokens = n}},
       .rule = d.gate ? RuleId::mul_mat_glu : RuleId::mul_mat_epilogue,
       .dtype = d.type});
}

struct ExpertCase {
  DType type;
  int64_t n_expert, n_used, n_out, k;
  LaneCase lane;
  bool gate = false, shared_input = true;
  ir::GluParams glu = {};
};

ValueId expert_lane(CaseBuilder& c, const ExpertCase& e, ValueId x, ValueId ids) {
  ValueId y = c.b.mul_mat_id(c.weight(e.type, {e.n_expert, e.n_out, e.k}), x, ids);
  if (e.lane.scale) y = c.b.mul(y, c.b.get_rows(c.weight(DType::f32, {e.n_expert, 1}, {0.5, 2}), ids));
  if (e.lane.bias) y = c.b.add_id(y, c.weight(DType::f32, {e.n_expert, e.n_out}), ids);
  return y;
}

void add_experts(std::vector<Recipe>& out, const ExpertCase& e, int64_t n, std::string_view note = {}) {
  out.push_back(
      {.subject = label_of(lane_label("MUL_MAT_ID", e.lane, true), e.gate),
       .variant = fmt::format("{}type={} n={} experts={} used={} input={} n_out={} k={}{}", note, dtype_name(e.type), n,
                              e.n_expert, e.n_used, e.shared_input ? "shared" : "own", e.n_out, e.k,
                              e.gate ? fmt::format(" glu={}", ir::kGlus[static_cast<size_t>(e.glu.kind)]) : ""),
       .build =
           [=](CaseBuilder& c) {
             const ValueId ids = expert_ids(c, e.n_expert, e.n_used);
             const ValueId x = c.tensor({e.shared_input ? 1 : e.n_used, e.k});
             const ValueId first = expert_lane(c, e, x, ids);
             c.b.output(e.gate ? c.b.glu(first, expert_lane(c, e, x, ids), e.glu) : first);
           },
       .sequences = {{.n_tokens = n}},
       .rule = e.gate ? RuleId::mul_mat_id_glu : RuleId::mul_mat_id_epilogue,
       .dtype = e.type});
}

constexpr ir::GluParams glu_params(ir::Glu kind) {
  const bool oai = kind == ir::Glu::swiglu_oai;
  return {.kind = kind, .alpha = oai ? 1.702 : 0, .limit = oai ? 0.7 : 0};
}
constexpr LaneCase kLanes[] = {{}, {.bias = true}, {.scale = true}, {.scale = true, .bias = true}};

void add_type(std::vector<Recipe>& out, DType type) {
  const int64_t k = std::max<int64_t>(dtype_row(type).block_elems, 64);
  for (int64_t n : kTokens)
    for (const LaneCase& lane : kLanes) {
      if (lane.scale && type != DType::nvfp4) continue;
      const ir::GluParams glu = glu_params(ir::Glu::swiglu);
      if (lane.scale || lane.bias) {
        add_dense(out, {type, 37, k, lane}, n);
        add_experts(out, {type, 5, 3, 21, k, lane}, n);
      }
      if (!lane.bias) add_dense(out, {type, 37, k, lane, false, true}, n);
      add_dense(out, {type, 37, k, lane, true, false, glu}, n);
      add_experts(out, {type, 5, 3, 21, k, lane, true, true, glu}, n);
    }
}

// ggml's mat-vec fusion test: one column, 32 rows of 256, 16 matrices of which 8 are used; b: one input for all of
// them.
void add_published(std::vector<Recipe>& out) {
  for (DType type : {DType::nvfp4, DType::f32, DType::f16, DType::q4_0})
    for (const LaneCase& lane : kLanes)
      for (bool gate : {false, true})
        for (ir::Glu glu : {ir::Glu::swiglu, ir::Glu::geglu, ir::Glu::reglu, ir::Glu::swiglu_oai}) {
          if (lane.scale && type != DType::nvfp4) continue;
          if (!gate && (glu != ir::Glu::swiglu || (!lane.scale && !lane.bias))) continue;
          add_dense(out, {type, 32, 256, lane, gate, false, glu_params(glu)}, 1, "published ");
          for (bool b : {false, true})
            add_experts(out, {type, 16, 8, 32, 256, lane, gate, b, glu_params(glu)}, 1, "published ");
        }
}

}  // namespace

void add_matmul_rules(std::vector<Recipe>& out) {
  for (DType type : weight_types()) add_type(out, type);
  add_published(out);
  for (size_t glu = 0; glu < ir::kGlus.size(); ++glu)
    for (int64_t n : {2, 9})
      for (DType type : {DType::f32, DType::q8_0}) {
        add_dense(out, {type, 50, 96, {}, true, false, glu_params(static_cast<ir::Glu>(glu))}, n);
        add_experts(out, {type, 6, 2, 50, 96, {.bias = true}, true, true, glu_params(static_cast<ir::Glu>(glu))}, n);
      }
}

}  // namespace tokamak::check
