// Attributes of graph nodes: small named constants, one table row each.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "tensor/shape.h"

namespace tokamak::ir {

enum class Attr : uint8_t {
  eps,
  scale,
  bias,
  n_rot,
  pairing,
  theta,
  freq_scale,
  ext_factor,
  attn_factor,
  beta_fast,
  beta_slow,
  n_ctx_orig,
  round_range,
  glu,
  alpha,
  limit,
  unary,
  softcap,
  window,
  chunk,
  causal,
  offset,
  dims,
  min,
  max,
  n_group,
  n_group_used,
  n_best,
  temp_scale,
  temp_length,
  temp_offset,
  n_snapshots,
  head_map,
  count_,
};

enum class AttrKind : uint8_t { number, integer, keyword, shape };

// Values of keyword attributes, in the order of their keyword lists below.
enum class RopePairing : int64_t { norm, neox };  // rotate (2i, 2i+1) or (i, i + n_rot/2)
enum class Glu : int64_t { reglu, geglu, swiglu, geglu_erf, geglu_quick, swiglu_oai };
enum class Unary : int64_t { silu, gelu, gelu_erf, gelu_quick, relu, sigmoid, tanh, softplus, exp, sqr, sqrt, sin };
// Which key head a value head reads: h mod n_head_k, or h / (n_head_v / n_head_k).
enum class HeadMap : int64_t { tiled, grouped };

inline constexpr auto kRopePairings = std::to_array<std::string_view>({"norm", "neox"});
inline constexpr auto kGlus =
    std::to_array<std::string_view>({"reglu", "geglu", "swiglu", "geglu_erf", "geglu_quick", "swiglu_oai"});
inline constexpr auto kUnaries = std::to_array<std::string_view>(
    {"silu", "gelu", "gelu_erf", "gelu_quick", "relu", "sigmoid", "tanh", "softplus", "exp", "sqr", "sqrt", "sin"});
inline constexpr auto kHeadMaps = std::to_array<std::string_view>({"tiled", "grouped"});

struct AttrRow {
  Attr id;
  std::string_view name;
  AttrKind kind;
  std::span<const std::string_view> keywords;  // of a keyword attribute
  std::string_view meaning;
  double min = std::numeric_limits<double>::lowest(), max = std::numeric_limits<double>::max();  // of numbers, integers
};

inline constexpr double kMaxIntegerAttr = 1LL << 40;

inline constexpr auto kAttrs = std::to_array<AttrRow>({
    {Attr::eps, "eps", AttrKind::number, {}, "added to the mean square or variance, inside the root", 0, 1},
    {Attr::scale, "scale", AttrKind::number, {}, "factor"},
    {Attr::bias, "bias", AttrKind::number, {}, "added after the factor"},
    {Attr::n_rot, "n_rot", AttrKind::integer, {}, "rotated dimensions per head, the first ones", 2, kMaxIntegerAttr},
    {Attr::pairing, "pairing", AttrKind::keyword, kRopePairings, "which dimensions rotate together"},
    {Attr::theta, "theta", AttrKind::number, {}, "rope frequency base", 1e-9},
    {Attr::freq_scale, "freq_scale", AttrKind::number, {}, "factor on the angles (1/linear factor)", 0},
    {Attr::ext_factor, "ext_factor", AttrKind::number, {}, "YaRN: share of extrapolation, 0 = off", 0},
    {Attr::attn_factor, "attn_factor", AttrKind::number, {}, "factor on cos and sin", 0},
    {Attr::beta_fast, "beta_fast", AttrKind::number, {}, "YaRN correction range, fast end", 0},
    {Attr::beta_slow, "beta_slow", AttrKind::number, {}, "YaRN correction range, slow end", 0},
    {Attr::n_ctx_orig,
     "n_ctx_orig",
     AttrKind::integer,
     {},
     "context length before scaling, tokens",
     0,
     kMaxIntegerAttr},
    {Attr::round_range, "round_range", AttrKind::integer, {}, "YaRN: 1 = the correction range is whole pairs", 0, 1},
    {Attr::glu, "glu", AttrKind::keyword, kGlus, "activation of the gate"},
    {Attr::alpha, "alpha", AttrKind::number, {}, "swiglu_oai: factor inside the sigmoid; others: 0"},
    {Attr::limit, "limit", AttrKind::number, {}, "swiglu_oai: gate and up are cut to it; others: 0", 0},
    {Attr::unary, "unary", AttrKind::keyword, kUnaries, "function"},
    {Attr::softcap, "softcap", AttrKind::number, {}, "scores become c * tanh(score / c); 0 = off", 0},
    {Attr::window,
     "window",
     AttrKind::integer,
     {},
     "a key is visible when 0 <= q_pos - k_pos < window; 0 = no limit",
     0,
     kMaxIntegerAttr},
    {Attr::chunk,
     "chunk",
     AttrKind::integer,
     {},
     "a key is visible when it lies in the query's own run of so many positions; 0 = no limit",
     0,
     kMaxIntegerAttr},
    {Attr::causal, "causal", AttrKind::integer, {}, "1: keys after the query are hidden", 0, 1},
    {Attr::offset,
     "offset",
     AttrKind::integer,
     {},
     "first element of the last dimension that the view shows",
     0,
     kMaxIntegerAttr},
    {Attr::dims, "dims", AttrKind::shape, {}, "shape of the result"},
    {Attr::min, "min", AttrKind::number, {}, "smallest result"},
    {Attr::max, "max", AttrKind::number, {}, "largest result"},
    {Attr::n_group, "n_group", AttrKind::integer, {}, "groups of experts", 1, kMaxIntegerAttr},
    {Attr::n_group_used, "n_group_used", AttrKind::integer, {}, "groups that are kept", 1, kMaxIntegerAttr},
    {Attr::n_best, "n_best", AttrKind::integer, {}, "a group counts as the sum of so many of its best", 1, 2},
    {Attr::temp_scale, "temp_scale", AttrKind::number, {}, "factor on the logarithm"},
    {Attr::temp_length,
     "temp_length",
     AttrKind::integer,
     {},
     "positions until the factor first grows",
     1,
     kMaxIntegerAttr},
    {Attr::temp_offset, "temp_offset", AttrKind::integer, {}, "added to the position", 0, 1},
    {Attr::n_snapshots, "n_snapshots", AttrKind::integer, {}, "states kept per sequence, newest first", 1, 64},
    {Attr::head_map, "head_map", AttrKind::keyword, kHeadMaps, "which key head a value head reads"},
});

constexpr bool attr_table_matches_enum() {
  if (kAttrs.size() != static_cast<size_t>(Attr::count_)) return false;
  for (size_t i = 0; i < kAttrs.size(); ++i)
    if (static_cast<size_t>(kAttrs[i].id) != i) return false;
  return true;
}
static_assert(attr_table_matches_enum());
constexpr const AttrRow& attr_row(Attr id) { return kAttrs[static_cast<size_t>(id)]; }

// number -> double, integer and keyword -> int64_t, shape -> Shape.
using AttrValue = std::variant<double, int64_t, Shape>;

// Attributes of one node, kept in the order of the table. Getters CHECK that the attribute is present: the verifier
// has compared the set with the op's row.
class Attrs {
 public:
  using Entry = std::pair<Attr, AttrValue>;

  Attrs() = default;
  Attrs(std::initializer_list<Entry> entries) {
    for (const Entry& e : entries) set(e.first, e.second);
  }

  void set(Attr id, AttrValue value) {
    auto it = entries_.begin();
    while (it != entries_.end() && it->first < id) ++it;
    if (it != entries_.end() && it->first == id)
      it->second = value;
    else
      entries_.insert(it, {id, value});
  }
  bool has(Attr id) const { return find(id) != nullptr; }
  double number(Attr id) const { return std::get<double>(at(id)); }
  int64_t integer(Attr id) const { return std::get<int64_t>(at(id)); }
  const Shape& shape(Attr id) const { return std::get<Shape>(at(id)); }
  template <class Keyword>
  Keyword keyword(Attr id) const {
    return static_cast<Keyword>(integer(id));
  }
  std::span<const Entry> entries() const { return entries_; }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  const AttrValue* find(Attr id) const {
    for (const Entry& e : entries_)
      if (e.first == id) return &e.second;
    return nullptr;
  }
  const AttrValue& at(Attr id) const {
    const AttrValue* value = find(id);
    CHECK(value != nullptr, attr_row(id).name);
    return *value;
  }
  std::vector<Entry> entries_;
};

}  // namespace tokamak::ir
