#include "backend/cpu/ops/attention.h"

#include <algorithm>

#include "base/check.h"
#include "base/round_up.h"

namespace tokamak::cpu {

namespace {
constexpr int64_t kItemsPerThread = 4;  // fewer than this, and keys are split

int64_t padded(int64_t head_dim) { return round_up(head_dim, kSlotGroup); }
int64_t chunks_of(KeyRange keys) {
  return keys.begin >= keys.end ? 0 : (keys.end - 1) / kKeyChunk - keys.begin / kKeyChunk + 1;
}
}  // namespace

KeyRange visible_keys(const AttentionArgs& args, int64_t token) {
  const int64_t position = args.positions[token];
  const int64_t n_keys = args.sequences[static_cast<size_t>(args.seq_ids[token])].n_keys;
  int64_t begin = args.window > 0 ? std::max<int64_t>(0, position - args.window + 1) : 0;
  if (args.chunk > 0) begin = std::max(begin, position / args.chunk * args.chunk);
  const int64_t end = args.causal || args.window > 0 ? std::min(position + 1, n_keys) : n_keys;
  return {begin, std::max(begin, end)};
}

void make_attention_tiles(std::span<const int32_t> seq_ids, int64_t group, std::vector<AttentionTile>& tiles) {
  const int64_t limit = std::max<int64_t>(1, kMaxTileRows / group);
  tiles.clear();
  for (size_t begin = 0; begin < seq_ids.size();) {
    size_t end = begin + 1;
    while (end < seq_ids.size() && seq_ids[end] == seq_ids[begin] && static_cast<int64_t>(end - begin) < limit) ++end;
    tiles.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end - begin)});
    begin = end;
  }
}

AttentionPlan plan_attention(const AttentionArgs& args, int64_t n_tokens, int n_threads, int64_t partial_floats) {
  const int64_t n_head_kv = args.keys.layout.n_head_kv;
  CHECK(args.n_head % n_head_kv == 0 && args.values.layout.n_head_kv == n_head_kv, args.n_head, n_head_kv);
  CHECK(args.keys.layout.type == args.values.layout.type && args.keys.layout.page_size == args.values.layout.page_size);
  AttentionPlan plan{.n_parts = div_round_up(args.n_head / n_head_kv, kMaxTileRows)};
  for (const AttentionTile& tile : args.tiles) {
    KeyRange keys = visible_keys(args, tile.first_token);
    for (int32_t t = tile.first_token + 1; t < tile.first_token + tile.n_tokens; ++t) {
      const KeyRange more = visible_keys(args, t);
      keys = {std::min(keys.begin, more.begin), std::max(keys.end, more.end)};
    }
    plan.max_chunks = std::max(plan.max_chunks, chunks_of(keys));
  }
  plan.n_items = static_cast<int64_t>(args.tiles.size()) * n_head_kv * plan.n_parts;
  const int64_t needed = n_tokens * args.n_head * plan.max_chunks * (kSlotGroup + args.values.layout.dim_stride);
  if (n_threads > 1 && plan.max_chunks > 1 && plan.n_items < kItemsPerThread * n_threads && needed <= partial_floats) {
    plan.split_keys = true;
    plan.n_items *= plan.max_chunks;
    plan.n_merge_items = n_tokens * args.n_head;
  }
  return plan;
}

int64_t attention_partial_floats(int64_t n_tokens, int64_t n_head, int64_t head_dim_v, int64_t n_keys) {
  return n_tokens * n_head * (n_keys / kKeyChunk + 2) * (kSlotGroup + padded(head_dim_v));
}

int64_t attention_scratch_floats(int64_t head_dim_k, int64_t head_dim_v) {
  const int64_t dv = padded(head_dim_v);
  return kMaxTileRows * (padded(head_dim_k) + 2 * dv + kSlotGroup) + kKeyBlock * (head_dim_k + dv) +
         kMaxTileRows * kKeyBlock;
}

}  // namespace tokamak::cpu
