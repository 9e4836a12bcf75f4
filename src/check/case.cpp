#include "check/case.h"

#include <fmt/format.h>

#include <numeric>

#include "base/check.h"
#include "base/fnv1a.h"
#include "base/random.h"
#include "base/round_up.h"
#include "quant/codec.h"

namespace tokamak::check {

using ir::ValueId;

namespace {
uint64_t hash_of(std::span<const std::byte> bytes) {
  Fnv1a hash;
  hash.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return hash.value();
}

int64_t total_tokens(std::span<const Sequence> sequences) {
  int64_t n = 0;
  for (const Sequence& s : sequences) n += s.n_tokens;
  return n;
}

// Encoded blocks of one type, from which weights are put together: searching encoders are slow.
class BlockPool {
 public:
  static constexpr int64_t kBlocks = 64;

  std::span<const std::byte> block(DType dtype, double which) {
    std::vector<std::byte>& blocks = pools_[dtype];
    const size_t n_bytes = dtype_row(dtype).block_bytes;
    if (blocks.empty()) {
      const int64_t n = kBlocks * dtype_row(dtype).block_elems;
      std::vector<float> x(static_cast<size_t>(n));
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(2 * uniform(7, i) - 1);
      blocks.resize(kBlocks * n_bytes);
      CHECK(encode_row(dtype, x.data(), n, nullptr, blocks.data()).has_value(), dtype_name(dtype));
    }
    const auto index = static_cast<size_t>(which * static_cast<double>(kBlocks));
    return std::span<const std::byte>(blocks).subspan(index * n_bytes, n_bytes);
  }

 private:
  std::map<DType, std::vector<std::byte>> pools_;
};
}  // namespace

StepInputs StepData::view() const {
  return {.tokens = tokens,
          .positions = positions,
          .seq_ids = seq_ids,
          .slots = slots,
          .out_rows = {},
          .sequences = sequences,
          .state_src = state_src,
          .state_rows = state_rows};
}

WeightLookup Case::lookup() const {
  return [this](std::string_view weight_name) -> Result<WeightSource> {
    const auto found = weights.find(weight_name);
    CHECK(found != weights.end(), weight_name);
    return WeightSource{
        .dtype = found->second.dtype, .shape = found->second.shape, .data = found->second.bytes.bytes(), .forget = {}};
  };
}

std::string Case::damage() const {
  for (const auto& [weight_name, weight] : weights) {
    if (!weight.bytes.is_intact()) return "wrote beyond the ends of " + weight_name;
    if (hash_of(weight.bytes.bytes()) != weight.hash) return "changed the constant " + weight_name;
  }
  return {};
}

CaseBuilder::CaseBuilder(std::string name, uint64_t seed, std::vector<Sequence> sequences)
    : b(name),
      n_tokens(total_tokens(sequences)),
      n_seqs(static_cast<int64_t>(sequences.size())),
      sequences_(std::move(sequences)) {
  Fnv1a hash;
  hash.add(name);
  hash.add(seed);
  seed_ = hash.value();
  case_.name = std::move(name);
  // Rows of the tables are read in a mixed order, some never.
  for (int64_t t = 0; t < n_tokens; ++t) token_ids_.push_back(static_cast<int32_t>((t * 5 + 2) % (n_tokens + 3)));
  if ((n_tokens + 3) % 5 == 0)  // then 5 t would repeat
    for (int64_t t = 0; t < n_tokens; ++t) token_ids_[static_cast<size_t>(t)] = static_cast<int32_t>(n_tokens + 2 - t);
}

double CaseBuilder::random() { return uniform(seed_, n_drawn_++); }

void CaseBuilder::fill_bytes(CaseWeight& weight, Range range) {
  static thread_local BlockPool pool;
  const std::span<std::byte> bytes = weight.bytes.bytes();
  if (is_quantized(weight.dtype)) {
    const size_t n_bytes = dtype_row(weight.dtype).block_bytes;
    for (size_t at = 0; at < bytes.size(); at += n_bytes)
      std::ranges::copy(pool.block(weight.dtype, random()), bytes.begin() + static_cast<ptrdiff_t>(at));
    return;
  }
  std::vector<float> x(static_cast<size_t>(weight.shape.n_elements()));
  for (float& v : x) v = static_cast<float>(range.low + (range.high - range.low) * random());
  CHECK(encode_row(weight.dtype, x.data(), static_cast<int64_t>(x.size()), nullptr, bytes.data()).has_value());
}

ValueId CaseBuilder::add_weight(CaseWeight weight) {
  const std::string name = fmt::format("w{}", case_.weights.size());
  const ValueId id = b.weight(name, weight.dtype, weight.shape);
  weight.hash = hash_of(weight.bytes.bytes());
  case_.weights.emplace(name, std::move(weight));
  return id;
}

ValueId CaseBuilder::weight(DType dtype, const Shape& shape, Range range) {
  const auto n = static_cast<uint64_t>(shape.n_elements());
  CaseWeight weight{.dtype = dtype, .shape = shape, .bytes = GuardedBytes(dtype_bytes(dtype, n))};
  fill_bytes(weight, range);
  return add_weight(std::move(weight));
}

ValueId CaseBuilder::constant(const Shape& shape, std::span<const float> values) {
  CHECK(static_cast<int64_t>(values.size()) == shape.n_elements(), values.size());
  CaseWeight weight{.shape = shape, .bytes = GuardedBytes(values.size_bytes())};
  std::ranges::copy(values, weight.bytes.floats().begin());
  return add_weight(std::move(weight));
}

ValueId CaseBuilder::tensor(std::initializer_list<int64_t> rest, Range range, Layout layout) {
  constexpr int64_t kBefore = 3, kAround = 8;  // elements of a wider row in front of the slice, and in all
  Shape shape{n_tokens}, wide{n_tokens};
  for (int64_t dim : rest) shape.push_inner(dim), wide.push_inner(dim);
  if (layout == Layout::slice) wide.set(-1, shape[-1] + kAround);
  const int64_t width = wide.n_elements() / n_tokens;
  ValueId x = b.get_rows(weight(DType::f32, {n_tokens + 3, width}, range), b.input(ir::InputRole::tokens, {n_tokens}));
  if (wide.rank() > 2) x = b.reshape(x, wide);
  return layout == Layout::slice ? b.view(x, kBefore, shape) : x;
}

ValueId CaseBuilder::rows(int64_t width, std::span<const float> values) {
  std::vector<float> table(static_cast<size_t>((n_tokens + 3) * width), 99.0f);
  for (size_t t = 0; t < static_cast<size_t>(n_tokens); ++t)
    std::ranges::copy(values.subspan(t * static_cast<size_t>(width), static_cast<size_t>(width)),
                      table.begin() + token_ids_[t] * width);
  return b.get_rows(constant({n_tokens + 3, width}, table), b.input(ir::InputRole::tokens, {n_tokens}));
}

int64_t CaseBuilder::n_pages() const {
  int64_t n = 2;  // that nobody uses
  for (const Sequence& s : sequences_) n += div_round_up(s.n_past + s.n_tokens, page_size);
  return n;
}

CaseBuilder::Cache CaseBuilder::cache(int64_t n_head_kv, int64_t dk, int64_t dv) {
  const int32_t layer = n_layers_++;
  case_.kv.layers.push_back({n_head_kv, dk, dv});
  case_.kv.recurrent.emplace_back();
  return {b.state(ir::StateRole::kv_k, layer, cache_type, {n_slots(), n_head_kv, dk}),
          b.state(ir::StateRole::kv_v, layer, cache_type, {n_slots(), n_head_kv, dv})};
}

// Rows: those that the step reads, those it writes, and two that nobody uses.
int64_t CaseBuilder::n_state_rows() const { return n_seqs * (1 + n_snapshots_) + 2; }

ValueId CaseBuilder::state(ir::StateRole role, int64_t row_elems, int64_t n_snapshots) {
  n_snapshots_ = n_snapshots;
  const int32_t layer = n_layers_++;
  case_.kv.layers.emplace_back();
  auto& elems = case_.kv.recurrent.emplace_back();
  (role == ir::StateRole::conv ? elems.conv_elems : elems.recurrent_elems) = row_elems;
  return b.state(role, layer, DType::f32, {n_state_rows(), row_elems});
}

ir::RecurrentInputs CaseBuilder::recurrent(int64_t n_snapshots) {
  return {.seq_ids = seq_ids(),
          .state_src = b.input(ir::InputRole::state_src, {n_seqs}),
          .state_rows = b.input(ir::InputRole::state_rows, {n_seqs}),
          .n_snapshots = n_snapshots};
}

// Pages are handed out from the last one down, so that no sequence lies in order.
void CaseBuilder::make_step() {
  StepData& step = case_.step;
  step.tokens = token_ids_;
  auto next_page = static_cast<int32_t>(n_pages() - 1);
  for (size_t s = 0; s < sequences_.size(); ++s) {
    const Sequence& sequence = sequences_[s];
    auto& pages = step.pages.emplace_back();
    const int64_t end = sequence.n_past + sequence.n_tokens;
    while (static_cast<int64_t>(pages.size()) * page_size < end) pages.push_back(--next_page);
    for (int64_t p = sequence.n_past; p < end; ++p) {
      step.positions.push_back(static_cast<int32_t>(p));
      step.seq_ids.push_back(static_cast<int32_t>(s));
      step.slots.push_back(static_cast<int32_t>(pages[static_cast<size_t>(p / page_size)] * page_size + p % page_size));
    }
    // A sequence without a past starts from zeros.
    const auto write = static_cast<int32_t>(1 + static_cast<int64_t>(s) * n_snapshots_);
    const auto read = states_in_place ? write : static_cast<int32_t>(n_state_rows() - 1 - static_cast<int64_t>(s));
    step.state_src.push_back(sequence.n_past > 0 ? read : -1);
    step.state_rows.push_back(write);
  }
}

Result<void> CaseBuilder::make_cache_graphs() {
  const int64_t n = n_slots();
  StepData& all = case_.all_slots;
  all.tokens.resize(static_cast<size_t>(n));
  std::iota(all.tokens.begin(), all.tokens.end(), 0);
  all.positions = all.slots = all.tokens;
  all.seq_ids.assign(static_cast<size_t>(n), 0);
  all.pages.resize(1);
  for (int32_t page = 0; page < n_pages(); ++page) all.pages[0].push_back(page);
  ir::GraphBuilder fill(case_.name + " (fill)"), probe(case_.name + " (probe)");
  const auto table = [&](ir::GraphBuilder& g, int64_t n_head, int64_t dim, Range range) {
    CaseWeight numbers{.shape = {n, n_head * dim}, .bytes = GuardedBytes(static_cast<size_t>(n * n_head * dim) * 4)};
    fill_bytes(numbers, range);
    numbers.hash = hash_of(numbers.bytes.bytes());
    const std::string name = fmt::format("w{}", case_.weights.size());
    const ValueId rows = g.get_rows(g.weight(name, DType::f32, numbers.shape), g.input(ir::InputRole::tokens, {n}));
    case_.weights.emplace(name, std::move(numbers));
    return g.reshape(rows, {n, n_head, dim});
  };
  for (size_t i = 0; i < case_.kv.layers.size(); ++i) {
    const auto [n_head, dk, dv] = case_.kv.layers[i];
    if (n_head == 0) continue;
    const auto layer = static_cast<int32_t>(i);
    const auto states = [&, n_head = n_head, dk = dk, dv = dv](ir::GraphBuilder& g) {
      return Cache{g.state(ir::StateRole::kv_k, layer, cache_type, {n, n_head, dk}),
                   g.state(ir::StateRole::kv_v, layer, cache_type, {n, n_head, dv})};
    };
    const ValueId slots = fill.input(ir::InputRole::slots, {n});
    const Cache filled = states(fill), probed = states(probe);
    fill.set_rows(filled.k, table(fill, n_head, dk, {}), slots);
    fill.set_rows(filled.v, table(fill, n_head, dv, {}), slots);
    probe.output(probe.flash_attn_ext(table(probe, n_head, dk, {0, 0}), probed.k, probed.v,
                                      probe.input(ir::InputRole::positions, {n}),
                                      probe.input(ir::InputRole::seq_ids, {n}), {.window = 1}));
  }
  case_.fill = TRY(fill.finish());
  case_.probe = TRY(probe.finish());
  return {};
}

Result<Case> CaseBuilder::finish() {
  case_.rule = rule;
  case_.graph = TRY(b.finish());
  case_.kv.n_pages = n_pages();
  case_.kv.page_size = page_size;
  case_.kv.type = cache_type;
  case_.kv.n_state_rows = n_state_rows();
  make_step();
  if (std::ranges::any_of(case_.kv.layers, [](const KvLayerShape& l) { return l.n_head_kv > 0; }))
    TRY(make_cache_graphs());
  case_.states.resize(static_cast<size_t>(n_state_rows() * state_row_floats(case_.kv)));
  for (float& x : case_.states) x = static_cast<float>(2 * random() - 1);
  return std::move(case_);
}

Result<Case> make_case(const Recipe& recipe, uint64_t seed) {
  CaseBuilder builder(recipe.name(), seed, recipe.sequences);
  builder.rule = recipe.rule;
  recipe.build(builder);
  Case out = TRY(builder.finish());
  for (StepData* step : {&out.step, &out.all_slots})
    for (const auto& pages : step->pages) step->sequences.push_back({pages});
  return out;
}

}  // namespace tokamak::check
