// Rotations, cache writes, attention.
#include <fmt/format.h>

#include "check/recipes.h"

namespace tokamak::check {

using ir::ValueId;

namespace {

constexpr std::string_view kLayouts[] = {"whole", "slice"};

struct RopeCase {
  int64_t n_head, head_dim, n_rot;
  bool factors = false, yarn = false;
};
constexpr RopeCase kRopes[] = {{1, 2, 2},
                               {3, 64, 64},
                               {3, 65, 32},
                               {2, 80, 64},
                               {2, 128, 128, true},
                               {2, 64, 64, false, true},
                               {4, 96, 24, true, true}};

void add_rope(std::vector<Recipe>& out) {
  for (const RopeCase& r : kRopes)
    for (int64_t n : {1, 2, 7, 33})
      for (ir::RopePairing pairing : {ir::RopePairing::norm, ir::RopePairing::neox})
        for (Layout layout : {Layout::whole, Layout::slice})
          out.push_back(
              {.subject = "ROPE",
               .variant = fmt::format("pairing={} heads={} dim={} n_rot={} factors={} yarn={} n={} layout={}",
                                      ir::kRopePairings[static_cast<size_t>(pairing)], r.n_head, r.head_dim, r.n_rot,
                                      r.factors ? 1 : 0, r.yarn ? 1 : 0, n, kLayouts[static_cast<size_t>(layout)]),
               .build =
                   [=](CaseBuilder& c) {
                     ir::RopeParams p{.n_rot = r.n_rot, .pairing = pairing, .theta = 10000};
                     if (r.yarn) {
                       p.freq_scale = 0.25;
                       p.ext_factor = 1;
                       p.attn_factor = 1.1386;
                       p.n_ctx_orig = 4096;
                       p.round_range = n % 2 == 0;
                     }
                     std::optional<ValueId> factors;
                     if (r.factors) factors = c.weight(DType::f32, {r.n_rot / 2}, {1, 8});
                     c.b.output(c.b.rope(c.tensor({r.n_head, r.head_dim}, {}, layout), c.positions(), p, factors));
                   },
               .sequences = {{.n_tokens = n, .n_past = n * 37}}});
}

void add_attn_temp(std::vector<Recipe>& out) {
  for (int64_t n : {1, 2, 7, 33})
    for (int64_t offset : {0, 1})
      out.push_back({.subject = "ATTN_TEMP",
                     .variant = fmt::format("n={} offset={}", n, offset),
                     .build =
                         [=](CaseBuilder& c) {
                           c.b.output(c.b.attn_temp(c.tensor({3, 24}), c.positions(),
                                                    {.scale = 0.1, .length = 16, .offset = offset}));
                         },
                     .sequences = {{.n_tokens = n, .n_past = 100}}});
}

// Reads every value back where it was written: attention that sees its own position only.
void add_set_rows(std::vector<Recipe>& out) {
  for (DType type : kCacheDTypes)
    for (int64_t head_dim : {1, 16, 33, 64, 80, 128})
      for (int64_t n_head : {1, 3})
        for (Layout layout : {Layout::whole, Layout::slice}) {
          if (!has_whole_blocks(type, head_dim)) continue;
          out.push_back({.subject = "SET_ROWS",
                         .variant = fmt::format("type={} heads={} dim={} layout={}", dtype_name(type), n_head, head_dim,
                                                kLayouts[static_cast<size_t>(layout)]),
                         .build =
                             [=](CaseBuilder& c) {
                               c.cache_type = type;
                               const auto [k, v] = c.cache(n_head, head_dim, head_dim);
                               const ValueId x = c.tensor({n_head, head_dim}, {-4, 4}, layout);
                               c.b.set_rows(k, x, c.slots());
                               const ValueId written = c.b.set_rows(v, x, c.slots());
                               c.b.output(c.b.flash_attn_ext(c.tensor({n_head, head_dim}), k, written, c.positions(),
                                                             c.seq_ids(), {.window = 1}));
                             },
                         .sequences = {{.n_tokens = 5, .n_past = 3}, {.n_tokens = 1, .n_past = 20}, {.n_tokens = 18}},
                         .dtype = type});
        }
}

struct AttentionCase {
  std::string_view name;
  int64_t n_head = 4, n_head_kv = 2, dk = 64, dv = 64;
  ir::AttentionParams params = {.scale = 0.125};
  bool sinks = false;
};
constexpr ir::AttentionParams kPlain{.scale = 0.125};
const AttentionCase kAttention[] = {
    {"plain"},
    {"heads=1", 1, 1},
    {"heads=8/1", 8, 1},
    {"dims=80", 3, 3, 80, 80},
    {"dims=33,17", 2, 1, 33, 17},
    {"dims=192,128", 4, 1, 192, 128},
    {"dims=576,512", 4, 1, 576, 512, {.scale = 0.0417}},
    {"window", 4, 2, 64, 64, {.scale = 0.125, .window = 9}},
    {"softcap", 4, 2, 64, 64, {.scale = 0.5, .softcap = 2}},
    {"chunk", 4, 2, 64, 64, {.scale = 0.125, .chunk = 24}},
    {"sinks", 4, 2, 64, 64, kPlain, true},
    {"window,softcap,sinks", 6, 3, 40, 40, {.scale = 0.3, .softcap = 5, .window = 30}, true},
};
const std::vector<Sequence> kBatches[] = {{{1, 0}},
                                          {{1, 5}},
                                          {{1, 300}},
                                          {{2, 63}},
                                          {{7, 0}},
                                          {{33, 0}},
                                          {{33, 100}},
                                          {{1, 40}, {1, 3}, {1, 0}},
                                          {{5, 17}, {12, 2}, {1, 90}},
                                          {{80, 30}},
                                          {{70, 0}, {1, 200}, {3, 64}}};

std::string batch_text(const std::vector<Sequence>& batch) {
  std::string out;
  for (const Sequence& s : batch) out += fmt::format("{}{}@{}", out.empty() ? "" : ",", s.n_tokens, s.n_past);
  return out;
}

void add_flash_attention(std::vector<Recipe>& out) {
  for (DType type : kCacheDTypes)
    for (const AttentionCase& a : kAttention)
      for (const std::vector<Sequence>& batch : kBatches) {
        if (!has_whole_blocks(type, a.dk) || !has_whole_blocks(type, a.dv)) continue;
        out.push_back({.subject = "FLASH_ATTN_EXT",
                       .variant = fmt::format("{} type={} batch={}", a.name, dtype_name(type), batch_text(batch)),
                       .build =
                           [=](CaseBuilder& c) {
                             c.cache_type = type;
                             const auto [k, v] = c.cache(a.n_head_kv, a.dk, a.dv);
                             const ValueId q = c.tensor({a.n_head, a.dk});
                             const ValueId keys = c.b.set_rows(k, c.tensor({a.n_head_kv, a.dk}), c.slots());
                             const ValueId values = c.b.set_rows(v, c.tensor({a.n_head_kv, a.dv}), c.slots());
                             std::optional<ValueId> sinks;
                             if (a.sinks) sinks = c.weight(DType::f32, {a.n_head}, {-2, 2});
                             c.b.output(
                                 c.b.flash_attn_ext(q, keys, values, c.positions(), c.seq_ids(), a.params, sinks));
                           },
                       .sequences = batch,
                       .dtype = type});
      }
}

}  // namespace

void add_attention_recipes(std::vector<Recipe>& out) {
  add_rope(out);
  add_attn_temp(out);
  add_set_rows(out);
  add_flash_attention(out);
}

}  // namespace tokamak::check
