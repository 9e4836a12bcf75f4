// Matrix products.
#include <fmt/format.h>

#include "check/recipes.h"

namespace tokamak::check {

using ir::ValueId;

namespace {

constexpr int64_t kTokens[] = {1, 2, 7, 33};
constexpr int64_t kManyTokens = 150;  // more than one tile of the widest kernels

// Row lengths: for types without blocks also odd ones.
std::vector<int64_t> row_lengths(DType type) {
  const int64_t block = dtype_row(type).block_elems;
  if (block == 1) return {1, 33, 256};
  return {block, (512 + block - 1) / block * block + block};
}

void add_mul_mat(std::vector<Recipe>& out, DType type) {
  for (int64_t n : {kTokens[0], kTokens[1], kTokens[2], kTokens[3], kManyTokens})
    for (int64_t k : row_lengths(type))
      for (int64_t n_out : {1, 16, 37})
        for (Layout layout : {Layout::whole, Layout::slice}) {
          if (layout == Layout::slice && n_out != 37) continue;
          if (n == kManyTokens && (layout == Layout::slice || n_out != 37)) continue;
          out.push_back({.subject = "MUL_MAT",
                         .variant = fmt::format("type={} n={} n_out={} k={} layout={}", dtype_name(type), n, n_out, k,
                                                layout == Layout::slice ? "slice" : "whole"),
                         .build =
                             [=](CaseBuilder& c) {
                               const ValueId w = c.weight(type, {n_out, k});
                               c.b.output(c.b.mul_mat(w, c.tensor({k}, {}, layout)));
                             },
                         .sequences = {{.n_tokens = n}},
                         .dtype = type});
        }
}

// One matrix per head.
void add_mul_mat_heads(std::vector<Recipe>& out, DType type) {
  for (int64_t n : kTokens)
    for (int64_t n_head : {1, 3, 8})
      for (Layout layout : {Layout::whole, Layout::slice})
        out.push_back({.subject = "MUL_MAT",
                       .variant = fmt::format("type={} n={} heads={} layout={}", dtype_name(type), n, n_head,
                                              layout == Layout::slice ? "slice" : "whole"),
                       .build =
                           [=](CaseBuilder& c) {
                             const int64_t block = dtype_row(type).block_elems, k = (40 + block - 1) / block * block;
                             const ValueId w = c.weight(type, {n_head, 21, k});
                             c.b.output(c.b.mul_mat(w, c.tensor({n_head, k}, {}, layout)));
                           },
                       .sequences = {{.n_tokens = n}},
                       .dtype = type});
}

}  // namespace

void add_matmul_recipes(std::vector<Recipe>& out) {
  for (DType type : weight_types()) add_mul_mat(out, type);
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_k, DType::nvfp4})
    add_mul_mat_heads(out, type);
}

std::vector<Recipe> perf_recipes() {
  std::vector<Recipe> out;
  const auto add = [&](std::string subject, std::string variant, int64_t n, std::optional<DType> type,
                       std::function<ValueId(CaseBuilder&)> build) {
    out.push_back({.subject = std::move(subject),
                   .variant = fmt::format("{}{}n={}", variant, variant.empty() ? "" : " ", n),
                   .build = [=](CaseBuilder& c) { c.b.output(build(c)); },
                   .sequences = {{.n_tokens = n, .n_past = 0}},
                   .dtype = type});
  };
  for (DType type : weight_types())
    for (int64_t n : {1, 64})
      add("MUL_MAT", fmt::format("type={} n_out=2048 k=2048", dtype_name(type)), n, type, [=](CaseBuilder& c) {
        return c.b.mul_mat(c.weight(type, {2048, 2048}), c.tensor({2048}));
      });
  for (int64_t n : {1, 64}) {
    for (DType type : {DType::f16, DType::q8_0, DType::q4_k, DType::nvfp4})
      add("MUL_MAT_ID", fmt::format("type={} experts=16 used=4 n_out=512 k=1024", dtype_name(type)), n, type,
          [=](CaseBuilder& c) {
            const ValueId ids = expert_ids(c, 16, 4);
            return c.b.mul_mat_id(c.weight(type, {16, 512, 1024}), c.tensor({1, 1024}), ids);
          });
    add("RMS_NORM", "width=4096", n, {}, [](CaseBuilder& c) { return c.b.rms_norm(c.tensor({4096}), 1e-6); });
    add("ADD", "width=4096", n, {}, [](CaseBuilder& c) { return c.b.add(c.tensor({4096}), c.tensor({4096})); });
    add("SOFT_MAX", "width=4096", n, {}, [](CaseBuilder& c) { return c.b.soft_max(c.tensor({4096})); });
    add("UNARY", "f=silu width=4096", n, {},
        [](CaseBuilder& c) { return c.b.unary(c.tensor({4096}), ir::Unary::silu); });
    add("GLU", "f=swiglu width=4096", n, {},
        [](CaseBuilder& c) { return c.b.glu(c.tensor({4096}), c.tensor({4096}), ir::Glu::swiglu); });
    add("ROPE", "heads=32 dim=128", n, {}, [](CaseBuilder& c) {
      return c.b.rope(c.tensor({32, 128}), c.positions(), {.n_rot = 128, .pairing = ir::RopePairing::neox});
    });
    add("GATED_DELTA_NET", "heads=8 dim=128", n, {}, [](CaseBuilder& c) {
      const ValueId q = c.b.l2_norm(c.tensor({8, 128}), 1e-6), k = c.b.l2_norm(c.tensor({8, 128}), 1e-6);
      const ValueId v = c.tensor({8, 128}), g = c.tensor({8}, {-2, -0.1}), beta = c.tensor({8}, {0, 1});
      const ValueId state = c.state(ir::StateRole::recurrent, 8 * 128 * 128, 1);
      return c.b.view(c.b.gated_delta_net(q, k, v, g, beta, state, c.recurrent(1), 1 / 11.3, ir::HeadMap::tiled), 0,
                      {c.n_tokens * 8 * 128});
    });
  }
  for (DType type : kCacheDTypes)
    for (int64_t n : {1, 64}) {
      Recipe recipe{
          .subject = "FLASH_ATTN_EXT",
          .variant = fmt::format("type={} heads=32/8 dim=128 past=1024 n={}", dtype_name(type), n),
          .build =
              [=](CaseBuilder& c) {
                c.cache_type = type;
                c.page_size = 64;
                const auto [k, v] = c.cache(8, 128, 128);
                c.b.output(c.b.flash_attn_ext(c.tensor({32, 128}), k, v, c.positions(), c.seq_ids(), {.scale = 0.088}));
              },
          .sequences = {{.n_tokens = n, .n_past = 1024}},
          .dtype = type};
      out.push_back(std::move(recipe));
    }
  return out;
}

}  // namespace tokamak::check
