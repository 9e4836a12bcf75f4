// ROPE, cache writes and attention, and the fusions around them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/prefill.h"
#include "backend/cuda/lower.h"
#include "backend/lowering/attributes.h"
#include "backend/lowering/heads.h"
#include "backend/rope_frequencies.h"
#include "base/check.h"
#include "base/round_up.h"

namespace tokamak::cuda {

namespace {
using ir::Attr;

bool is_neox(const ir::Node& rope) {
  return rope.attrs.keyword<ir::RopePairing>(Attr::pairing) == ir::RopePairing::neox;
}

// The table of cosines and sines that `rope` needs; the step that fills it is added at its first use.
Result<Address> rope_table(Lowering& l, const ir::Node& rope) {
  const ir::ValueId factors = lowering::rope_factors(rope);
  for (const Lowering::RopeUse& use : l.rope_tables)
    if (use.factors == factors && use.attrs == rope.attrs) return use.table;
  std::span<const float> factor_values;
  if (factors != ir::kNone) factor_values = l.weights.at(l.value(factors).name).host_values;
  const std::vector<double> frequencies = rope_frequencies(lowering::frequency_params(rope.attrs), factor_values);
  const Address constants = TRY(l.constant(std::as_bytes(std::span(frequencies)))),
                positions = l.indices(rope.inputs[1]);
  const RopeTableArgs args{.attn_factor = rope.attrs.number(Attr::attn_factor),
                           .neox = is_neox(rope),
                           .n_rot = rope.attrs.integer(Attr::n_rot),
                           .n_tokens = l.value(rope.inputs[1]).shape[0]};
  const Address table = l.floats(args.n_tokens * 2 * args.n_rot);
  const double bytes = static_cast<double>(args.n_tokens * 2 * args.n_rot) * sizeof(float);
  l.add_helper({"rope_table", "rope table", "angles of all layers alike", bytes}, [=](const RunContext& c) {
    RopeTableArgs a = args;
    a.frequencies = c.at<double>(constants);
    a.positions = c.at<int32_t>(positions);
    a.rows = c.at(table);
    return launch_rope_table(a, c.stream);
  });
  l.rope_tables.push_back({.factors = factors, .attrs = rope.attrs, .table = table});
  return table;
}

// Arguments and addresses of one job over heads, from the input on.
struct Heads {
  HeadJob job;
  int64_t n_tokens = 0;
  Address x, norm_weight, table, y, slots;

  HeadJob bind(const RunContext& c) const {
    HeadJob out = job;
    out.x = c.at(x);
    out.norm_weight = c.at(norm_weight);
    out.table = c.at(table);
    out.y = c.at(y);
    out.slots = c.at<int32_t>(slots);
    return out;
  }
  uint64_t x_bytes() const { return static_cast<uint64_t>(n_tokens * job.x_stride) * sizeof(float); }
  uint64_t y_bytes() const { return static_cast<uint64_t>(n_tokens * job.n_head * job.head_dim) * sizeof(float); }
};

// RMS_NORM+MUL in front and the rotation, where `nodes` have them; `input` is [n_tokens, n_head, head_dim].
Result<Heads> heads_of(Lowering& l, Nodes nodes, ir::ValueId input) {
  const ir::Value& value = l.value(input);
  const Rows x = l.rows(input);
  Heads heads{.job = {.x_stride = value.shape[1] * x.stride_elems,
                      .x_head_stride = x.stride_elems,
                      .n_head = value.shape[1],
                      .head_dim = value.shape[2]},
              .n_tokens = value.shape[0],
              .x = x.address};
  if (const lowering::HeadNorm norm = lowering::head_norm(l.graph, nodes); norm.weight != ir::kNone) {
    heads.norm_weight = l.rows(norm.weight).address;
    heads.job.eps = norm.eps;
  }
  for (ir::NodeId id : nodes) {
    const ir::Node& rope = l.graph.node(id);
    if (rope.op != ir::Op::rope) continue;
    heads.table = TRY(rope_table(l, rope));
    heads.job.neox = is_neox(rope);
    heads.job.n_rot = rope.attrs.integer(Attr::n_rot);
  }
  return heads;
}

// ROPE, RMS_NORM+MUL+ROPE, and the same or nothing before SET_ROWS.
Result<Heads> heads_to_destination(Lowering& l, Nodes nodes) {
  const ir::Node& last = l.graph.node(nodes.back());
  const bool is_write = last.op == ir::Op::set_rows;
  Heads heads = TRY(heads_of(l, nodes, l.graph.node(nodes[0]).inputs[is_write && nodes.size() == 1 ? 1 : 0]));
  if (!is_write) {
    heads.y = l.rows(last.output).address;
    return heads;
  }
  const ir::Value& cache = l.value(last.inputs[0]);
  heads.job.cache = cache.state_role == ir::StateRole::kv_k ? l.kv.keys(cache.layer_idx) : l.kv.values(cache.layer_idx);
  heads.job.layout =
      kv_head_layout(l.kv.type(), static_cast<int>(heads.job.head_dim), static_cast<int>(l.kv.config().page_size));
  heads.slots = l.indices(last.inputs[2]);
  return heads;
}

// The nodes of a group that heads_to_destination takes; none for other groups.
std::optional<std::vector<ir::NodeId>> heads_nodes(const ir::Graph& graph, const ir::Group& group) {
  std::vector<ir::NodeId> nodes = fuse::pattern_nodes(graph, group);
  if (nodes.empty()) return {};
  if (group.rule != UINT16_MAX) {
    const auto rule = static_cast<fuse::RuleId>(group.rule);
    const bool is_heads = rule == fuse::RuleId::rms_norm_mul_rope || rule == fuse::RuleId::rope_set_rows ||
                          rule == fuse::RuleId::rms_norm_mul_rope_set_rows;
    if (!is_heads) return {};
    return nodes;
  }
  const ir::Op op = graph.node(nodes[0]).op;
  if (op != ir::Op::rope && op != ir::Op::set_rows) return {};
  return nodes;
}

bool overlap(const Address& a, uint64_t a_bytes, const Address& b, uint64_t b_bytes) {
  if (a.where != Address::Where::arena || b.where != Address::Where::arena) return false;
  return a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
}

// Whether the two can run at the same time.
bool are_independent(const Heads& a, const Heads& b) {
  return a.n_tokens == b.n_tokens && !overlap(a.x, a.x_bytes(), b.y, b.y_bytes()) &&
         !overlap(b.x, b.x_bytes(), a.y, a.y_bytes()) && !overlap(a.y, a.y_bytes(), b.y, b.y_bytes());
}

// Tokens that are worked on one by one, with their keys split, in one launch; with more partial results than this, one
// block walks over all keys of a token.
constexpr int64_t kMaxSplitTokens = 64, kMaxPartialFloats = int64_t{64} << 20;

Address partials_of(Lowering& l, int64_t n_floats) {
  return l.scratch(static_cast<uint64_t>(n_floats) * sizeof(float));
}

struct Attention {
  AttentionArgs args;
  Address q, y, positions, seq_ids, page_begin, n_keys, pages, sinks, partials, q8;
  int64_t max_chunks = 0, most_chunks = 0;  // that partials have room for; that a context may need
  int64_t slice_tokens = kMaxSplitTokens;   // of a launch

  // Where the room is not enough, long contexts are not split: depends on the number of tokens.
  std::string_view note() const { return max_chunks < most_chunks ? kDependsOnColumns : std::string_view(); }
  bool is_split(const RunContext& c) const {
    return c.n_key_chunks > 1 && attention_chunks(args, c.n_key_chunks * kKeyChunk) <= max_chunks;
  }
  // Tokens [first, last) of the step.
  AttentionArgs bind(const RunContext& c, int64_t first, int64_t last) const {
    AttentionArgs a = args;
    a.n_tokens = last - first;
    a.n_step_tokens = args.n_tokens;
    a.q = c.at(q) + first * a.q_stride;
    a.y = c.at(y) + first * a.n_head * a.dv;
    a.q8 = c.at<uint8_t>(q8);
    a.positions = c.at<int32_t>(positions) + first;
    a.seq_ids = c.at<int32_t>(seq_ids) + first;
    a.page_begin = c.at<int32_t>(page_begin);
    a.n_keys = c.at<int32_t>(n_keys);
    a.pages = c.at<int32_t>(pages);
    a.sinks = c.at(sinks);
    if (partials && is_split(c)) {
      a.partials = c.at(partials);
      a.most_keys = c.n_key_chunks * kKeyChunk;
      a.n_chunks = attention_chunks(a, a.most_keys);
    }
    return a;
  }
};

Attention attention_of(Lowering& l, const ir::Node& node) {
  const ir::Value &q = l.value(node.inputs[0]), &k = l.value(node.inputs[1]), &v = l.value(node.inputs[2]);
  const Rows q_rows = l.rows(node.inputs[0]);
  Attention out{.args = {.q_stride = q.shape[1] * q_rows.stride_elems,
                         .q_head_stride = q_rows.stride_elems,
                         .keys = l.kv.keys(k.layer_idx),
                         .values = l.kv.values(v.layer_idx),
                         .type = l.kv.type(),
                         .n_tokens = q.shape[0],
                         .n_head = q.shape[1],
                         .n_head_kv = k.shape[1],
                         .dk = k.shape[2],
                         .dv = v.shape[2],
                         .page_size = l.kv.config().page_size},
                .q = q_rows.address,
                .y = l.rows(node.output).address,
                .positions = l.indices(node.inputs[3]),
                .seq_ids = l.indices(node.inputs[4]),
                .page_begin = InputLayout::at(l.inputs.page_begin),
                .n_keys = InputLayout::at(l.inputs.n_keys),
                .pages = InputLayout::at(l.inputs.pages)};
  lowering::set_attention(out.args, node.attrs);
  if (node.inputs.size() > 5) out.sinks = l.rows(node.inputs[5]).address;
  return out;
}

// The input of a product that is this result with the heads of a token as one row; none when there is no such product.
ir::ValueId as_rows_of_product(const Lowering& l, ir::ValueId result) {
  const Shape& shape = l.value(result).shape;
  for (const ir::Node& node : l.graph.nodes) {
    if (node.op != ir::Op::mul_mat || l.graph.storage_of(node.inputs[1]) != result) continue;
    const ir::ValueId x = node.inputs[1];
    if (fuse::is_whole(l.graph, x, result) && l.value(x).shape.row_elems() == shape[1] * shape[2]) return x;
  }
  return ir::kNone;
}

// Steps of more than kMaxSplitTokens are worked on in tiles, where there is a kernel for that; 0: there is none. It
// sums in another order than the kernels of few tokens.
int64_t tile_tokens_of(const Lowering& l, const Attention& attention) {
  const AttentionArgs& a = attention.args;
  const bool is_aligned = attention.q.offset % 16 == 0 && a.q_stride % 4 == 0 && a.q_head_stride % 4 == 0;
  if (l.batch_invariant || a.n_tokens <= kMaxSplitTokens || !is_aligned || !(a.scale > 0)) return 0;
  return prefill_tile_tokens(a.type, a.dk, a.dv, a.n_head, a.n_head_kv);
}

// How the step is cut into tiles: one list for all layers with as many tokens per tile.
Address prefill_tiles(Lowering& l, const Attention& attention, int64_t tile_tokens) {
  for (const Lowering::TileUse& use : l.prefill_tiles)
    if (use.tile_tokens == tile_tokens) return use.tiles;
  const int64_t n_tokens = attention.args.n_tokens;
  const Address tiles = l.region(static_cast<uint64_t>(prefill_tile_ints(n_tokens)) * sizeof(int32_t));
  const Address seq_ids = attention.seq_ids;
  l.add_helper({"attention_tiles", "attention tiles", "tiles of all layers alike"}, [=](const RunContext& c) {
    return launch_prefill_tiles(c.at<int32_t>(seq_ids), n_tokens, tile_tokens, c.at<int32_t>(tiles), c.stream);
  });
  l.prefill_tiles.push_back({tile_tokens, tiles});
  return tiles;
}

PrefillAttentionArgs prefill_args(const AttentionArgs& a) {
  return {.q = a.q,
          .q_stride = a.q_stride,
          .q_head_stride = a.q_head_stride,
          .y = a.y,
          .keys = a.keys,
          .values = a.values,
          .type = a.type,
          .n_tokens = a.n_tokens,
          .n_head = a.n_head,
          .n_head_kv = a.n_head_kv,
          .dk = a.dk,
          .dv = a.dv,
          .page_size = a.page_size,
          .positions = a.positions,
          .seq_ids = a.seq_ids,
          .page_begin = a.page_begin,
          .n_keys = a.n_keys,
          .pages = a.pages,
          .sinks = a.sinks,
          .scale = a.scale,
          .softcap = a.softcap,
          .window = a.window,
          .chunk = a.chunk,
          .causal = a.causal};
}

// With more tokens, tiles and heads alone fill the device.
constexpr int64_t kMaxPrefillSplitTokens = 256;

void lower_prefill(Lowering& l, const Attention& attention, int64_t tile_tokens) {
  const AttentionArgs& args = attention.args;
  const Address tiles = prefill_tiles(l, attention, tile_tokens);
  const auto parts_of = [](int64_t n_keys) { return div_round_up(n_keys, int64_t{kPrefillSplitKeys}); };
  Address partials;
  int64_t max_parts = 0;
  if (args.n_tokens <= kMaxPrefillSplitTokens && prefill_splits(args.type, args.dk, args.dv)) {
    const int64_t of_one = prefill_partial_floats(args.n_tokens, args.n_head, args.dv, 1),
                  n_slots = l.kv.config().n_pages * l.kv.config().page_size;
    max_parts = std::min(parts_of(2 * (n_slots + kKeyChunk)), kMaxPartialFloats / of_one);
    partials = partials_of(l, of_one * max_parts);
  }
  l.add(
      "attention_prefill",
      [=](const RunContext& c) {
        PrefillAttentionArgs a = prefill_args(attention.bind(c, 0, attention.args.n_tokens));
        a.tiles = c.at<int32_t>(tiles);
        const int64_t n_parts = parts_of(c.n_key_chunks * kKeyChunk);
        if (n_parts < 2 || n_parts > max_parts) return launch_prefill_attention(a, c.stream);
        a.partials = c.at(partials);
        a.n_parts = n_parts;
        if (const cudaError_t status = launch_prefill_attention(a, c.stream); status != cudaSuccess) return status;
        return launch_prefill_merge(a, c.stream);
      },
      kDependsOnColumns);
}

cudaError_t launch_slices(const Attention& attention, const RunContext& c) {
  const int64_t n = attention.args.n_tokens;
  for (int64_t first = 0; first < n; first += attention.slice_tokens) {
    const AttentionArgs a = attention.bind(c, first, std::min(n, first + attention.slice_tokens));
    if (const cudaError_t status = launch_attention(a, c.stream); status != cudaSuccess) return status;
    if (!a.partials) continue;
    if (const cudaError_t status = launch_attention_merge(a, c.stream); status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

std::string beyond_flash_attn_ext(const ir::Graph& graph, const ir::Node& node) {
  const int64_t widest = std::max(graph.value(node.inputs[1]).shape[2], graph.value(node.inputs[2]).shape[2]);
  return widest <= kMaxHeadDims ? "" : fmt::format("heads of {} dimensions", widest);
}

// With room for partial results. For steps that are worked on token by token.
Attention decode_attention_of(Lowering& l, const ir::Node& node) {
  Attention attention = attention_of(l, node);
  const AttentionArgs& args = attention.args;
  const int64_t n_slots = l.kv.config().n_pages * l.kv.config().page_size;
  const int64_t needed = attention_chunks(args, 2 * (n_slots + kKeyChunk));  // RunContext rounds contexts up
  attention.most_chunks = needed;
  if (l.batch_invariant)  // the keys of a token are split or not whatever the number of tokens
    attention.slice_tokens = std::clamp(kMaxPartialFloats / attention_partial_floats(1, args.n_head, args.dv, needed),
                                        int64_t{1}, kMaxSplitTokens);
  const int64_t n = std::min(args.n_tokens, attention.slice_tokens);
  attention.max_chunks = std::min(needed, kMaxPartialFloats / attention_partial_floats(n, args.n_head, args.dv, 1));
  attention.partials = partials_of(l, attention_partial_floats(n, args.n_head, args.dv, attention.max_chunks));
  if (args.n_tokens > n) return attention;
  const ir::ValueId rows = as_rows_of_product(l, node.output);
  if (rows != ir::kNone && writes_q8(args)) {
    attention.q8 = l.quantized_by_producer(rows);
    attention.args.q8_low = l.wants_low(rows);
  }
  return attention;
}

void add_merge(Lowering& l, const Attention& attention) {
  l.add_helper({"attention_merge", "attention merge"}, [attention](const RunContext& c) {
    if (!attention.is_split(c)) return cudaSuccess;
    return launch_attention_merge(attention.bind(c, 0, attention.args.n_tokens), c.stream);
  });
}

Result<void> lower_flash_attn_ext(Lowering& l, Nodes nodes) {
  const ir::Node& node = l.graph.node(nodes[0]);
  if (const Attention attention = attention_of(l, node); const int64_t tile_tokens = tile_tokens_of(l, attention)) {
    lower_prefill(l, attention, tile_tokens);
    return {};
  }
  const Attention attention = decode_attention_of(l, node);
  const std::string_view kernel = has_decode_attention(attention.args) ? "attention_decode" : "attention";
  if (attention.args.n_tokens > attention.slice_tokens) {
    l.add(
        kernel, [attention](const RunContext& c) { return launch_slices(attention, c); }, attention.note());
    return {};
  }
  l.add(
      kernel,
      [attention](const RunContext& c) {
        return launch_attention(attention.bind(c, 0, attention.args.n_tokens), c.stream);
      },
      attention.note());
  add_merge(l, attention);
  return {};
}

// --- heads and attention of a step of one token in one launch.
struct Token {
  Heads q, k, v;

  TokenHeads bind(const RunContext& c) const { return {.q = q.bind(c), .k = k.bind(c), .v = v.bind(c)}; }
  bool has_one_rotation() const {
    const Address& table = q.table ? q.table : k.table;
    return std::ranges::all_of(std::array{&q, &k, &v},
                               [&](const Heads* heads) { return !heads->table || heads->table == table; });
  }
};

// The attention that comes next, or null.
const ir::Group* next_attention(const Lowering& l) {
  for (const ir::Group& group : l.later_groups()) {
    const std::vector<ir::NodeId> nodes = fuse::pattern_nodes(l.graph, group);
    if (l.is_lowered(group) || nodes.empty()) continue;
    return group.rule == UINT16_MAX && l.graph.node(nodes[0]).op == ir::Op::flash_attn_ext ? &group : nullptr;
  }
  return nullptr;
}

// Whether nobody but `reader` needs the value's memory after the node that makes it.
bool is_only_reader(const ir::Graph& graph, ir::ValueId value, const ir::Node& reader) {
  const ir::ValueId storage = graph.storage_of(value);
  const auto is_storage = [&](ir::ValueId id) { return graph.storage_of(id) == storage; };
  return std::ranges::none_of(graph.outputs, is_storage) &&
         std::ranges::none_of(graph.nodes, [&](const ir::Node& node) {
           return &node != &reader && !ir::op_row(node.op).is_view && std::ranges::any_of(node.inputs, is_storage);
         });
}

// What `all` makes for attention `node`: its queries, the keys and the values that the token adds; none when that is
// not all they are for.
std::optional<Token> token_of(const Lowering& l, const std::vector<Heads>& all, const ir::Node& node,
                              const Attention& attention) {
  const AttentionArgs& args = attention.args;
  Token token{.q = {.job = {.x_head_stride = args.q_head_stride, .n_head = args.n_head, .head_dim = args.dk},
                    .n_tokens = 1,
                    .x = attention.q}};
  const Address slots = l.inputs.address(ir::InputRole::slots);
  int n_found = 0;
  for (const Heads& heads : all) {
    const bool is_query = heads.y && heads.y == attention.q && is_only_reader(l.graph, node.inputs[0], node);
    const bool is_write = !heads.y && heads.slots == slots;
    if (is_query)
      token.q = heads;
    else if (is_write && heads.job.cache == args.keys && !token.k.n_tokens)
      token.k = heads;
    else if (is_write && heads.job.cache == args.values)
      token.v = heads;
    else
      return {};
    ++n_found;
  }
  const bool is_whole = token.k.n_tokens && token.v.n_tokens && n_found == static_cast<int>(all.size());
  const bool is_own = attention.positions == l.inputs.address(ir::InputRole::positions) && token.has_one_rotation();
  if (!is_whole || !is_own || !attention_makes_heads(args, {token.q.job, token.k.job, token.v.job})) return {};
  return token;
}

// The heads in `all` and the attention right behind them as one step. False: they are not for each other.
bool lower_token(Lowering& l, const std::vector<Heads>& all) {
  const ir::Group* group = all[0].n_tokens == 1 ? next_attention(l) : nullptr;
  if (!group) return false;
  const ir::Node& node = l.graph.node(fuse::pattern_nodes(l.graph, *group)[0]);
  const Attention wanted = attention_of(l, node);
  const std::optional<Token> token = token_of(l, all, node, wanted);
  if (!token) return false;
  const auto y_elems = static_cast<uint64_t>(wanted.args.n_head * wanted.args.dv);
  // What the heads are made of may lie where the plan has put the result.
  if (std::ranges::any_of(all, [&](const Heads& heads) {
        return overlap(heads.x, heads.x_bytes(), wanted.y, y_elems * sizeof(float));
      }))
    l.redirect(node.output, l.floats(static_cast<int64_t>(y_elems)));
  const Attention attention = decode_attention_of(l, node);
  l.take_along(*group);
  l.add("kv_write+attention_decode", [attention, token = *token](const RunContext& c) {
    return launch_attention_with_heads(attention.bind(c, 0, 1), token.bind(c), c.stream);
  });
  add_merge(l, attention);
  return true;
}

// One launch for a group and those right behind it that turn or store heads too: queries, keys and values of a layer;
// of one token with the attention over them.
Result<void> lower_heads(Lowering& l, Nodes nodes) {
  std::vector<Heads> all = {TRY(heads_to_destination(l, nodes))};
  for (const ir::Group& group : l.later_groups()) {
    if (l.is_lowered(group) || fuse::pattern_nodes(l.graph, group).empty()) continue;
    const auto later = heads_nodes(l.graph, group);
    if (!later || all.size() == kMaxHeadJobs) break;
    const Heads heads = TRY(heads_to_destination(l, *later));
    if (!std::ranges::all_of(all, [&](const Heads& other) { return are_independent(other, heads); })) break;
    l.take_along(group);
    all.push_back(heads);
  }
  if (lower_token(l, all)) return {};
  const bool writes = std::ranges::any_of(all, [](const Heads& heads) { return !heads.y; });
  l.add(writes ? "kv_write" : "rope_f32", [all](const RunContext& c) {
    HeadsArgs args{.n_jobs = static_cast<int>(all.size()), .n_tokens = all[0].n_tokens};
    for (size_t i = 0; i < all.size(); ++i) args.jobs[i] = all[i].bind(c);
    return launch_heads(args, c.stream);
  });
  return {};
}
}  // namespace

std::span<const OpLowering> attention_lowerings() {
  static constexpr auto kRows = std::to_array<OpLowering>({
      {ir::Op::rope, lower_heads},
      {ir::Op::set_rows, lower_heads},
      {ir::Op::flash_attn_ext, lower_flash_attn_ext, beyond_flash_attn_ext},
  });
  return kRows;
}

std::span<const RuleLowering> attention_rule_lowerings() {
  static constexpr auto kRows = std::to_array<RuleLowering>({
      {fuse::RuleId::rms_norm_mul_rope, lowering::supports_head_norm, lower_heads},
      {fuse::RuleId::rms_norm_mul_rope_set_rows, lowering::supports_head_norm, lower_heads},
      {fuse::RuleId::rope_set_rows, nullptr, lower_heads},
  });
  return kRows;
}

}  // namespace tokamak::cuda
