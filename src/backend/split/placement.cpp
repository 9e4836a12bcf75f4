#include "backend/split/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/check.h"

namespace tokamak::split {

namespace {
using Kind = Part::Kind;
constexpr std::string_view kLayer = "blk.";

std::optional<Part> part_of_weight(std::string_view name) {
  if (!name.starts_with(kLayer)) return std::nullopt;
  name.remove_prefix(kLayer.size());
  Part part{.kind = Kind::layer};
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), part.layer_idx);
  if (error != std::errc() || part.layer_idx < 0) return std::nullopt;
  if (name.find("_exps") != std::string_view::npos) part.kind = Kind::experts;
  return part;
}

// Nothing: the node has neither weights nor states. none: weights that belong to no layer.
std::optional<Part> own_part(const ir::Graph& graph, const ir::Node& node) {
  std::optional<Part> out;
  for (ir::ValueId id : node.inputs) {
    const ir::Value& storage = graph.value(graph.storage_of(id));
    if (storage.kind == ir::ValueKind::state) return Part{Kind::layer, storage.layer_idx};
    if (storage.kind != ir::ValueKind::weight) continue;
    const Part part = part_of_weight(storage.name).value_or(Part{});
    if (!out || part.kind == Kind::experts || out->kind == Kind::none) out = part;
  }
  return out;
}

std::string gib(uint64_t n_bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(n_bytes) / 1073741824.0); }

// How many first layers, and of how many first layers the experts, are the host's.
struct Share {
  bool embedding = false;  // on the host
  int64_t n_experts = 0, n_layers = 0;
};

// Nothing: it does not fit.
std::optional<Placement> lay_out(std::span<const Accelerator> accelerators, const Share& share) {
  const size_t host = accelerators.size(), n = accelerators.front().parts.layers.size();
  Placement out{.embedding = host,
                .output = host,
                .layers = std::vector(n, host),
                .experts = std::vector(n, host),
                .states = std::vector(n, host)};
  size_t at = 0;
  uint64_t used = accelerators[0].parts.activations;
  const auto take = [&](auto bytes_of) {
    while (at < host) {
      const uint64_t bytes = bytes_of(accelerators[at].parts);
      if (used + bytes <= accelerators[at].budget) return used += bytes, true;
      if (++at < host) used = accelerators[at].parts.activations;
    }
    return false;
  };
  if (static_cast<size_t>(share.n_layers) >= n) return out;
  if (!share.embedding) {
    if (!take([](const PartBytes& p) { return p.embedding; })) return std::nullopt;
    out.embedding = at;
  }
  for (auto layer = static_cast<size_t>(share.n_layers); layer < n; ++layer) {
    const bool with_experts = layer >= static_cast<size_t>(share.n_experts);
    if (!take([&](const PartBytes& p) {
          return p.layers[layer] + p.states[layer] + (with_experts ? p.experts[layer] : 0);
        }))
      return std::nullopt;
    out.layers[layer] = out.states[layer] = at;
    if (with_experts) out.experts[layer] = at;
  }
  if (!take([](const PartBytes& p) { return p.output; })) return std::nullopt;
  out.output = at;
  return out;
}

uint64_t sum(const std::vector<uint64_t>& v) { return std::accumulate(v.begin(), v.end(), uint64_t{0}); }
// Of the whole model on one accelerator.
uint64_t total_bytes(const PartBytes& p) {
  return p.embedding + p.output + p.activations + sum(p.layers) + sum(p.experts) + sum(p.states);
}
uint64_t total_budget(std::span<const Accelerator> accelerators) {
  return std::accumulate(accelerators.begin(), accelerators.end(), uint64_t{0},
                         [](uint64_t n, const Accelerator& a) { return n + a.budget; });
}

// Shares in the order in which they are tried; the last one, everything on the host, always fits.
std::vector<Share> shares(const PartBytes& parts, const PlacementOptions& options) {
  const auto n = static_cast<int64_t>(parts.layers.size());
  const bool layers_given = options.n_gpu_layers != kAuto, experts_given = options.n_cpu_moe != kAuto;
  const int64_t first_layers = layers_given ? n - std::min(n, options.n_gpu_layers) : 0;
  const int64_t first_experts = experts_given ? std::min(n, options.n_cpu_moe) : 0;
  std::vector<Share> out = {{false, first_experts, first_layers}, {true, first_experts, first_layers}};
  if (first_layers > 0) out.erase(out.begin());  // the first layer's neighbour stays with it
  if (layers_given) return out;
  int64_t n_experts = first_experts;
  if (!experts_given && sum(parts.experts) > 0)
    while (n_experts < n) out.push_back({true, ++n_experts, 0});
  for (int64_t n_layers = 1; n_layers <= n; ++n_layers) out.push_back({true, n_experts, n_layers});
  return out;
}
}  // namespace

std::vector<Part> parts_of(const ir::Graph& graph) {
  std::vector<std::optional<Part>> own(graph.nodes.size());
  size_t first = graph.nodes.size(), last = 0;  // nodes of layers
  for (size_t n = 0; n < own.size(); ++n) {
    own[n] = own_part(graph, graph.nodes[n]);
    if (!own[n] || own[n]->kind == Kind::none) continue;
    first = std::min(first, n);
    last = n;
  }
  std::vector<Part> out(graph.nodes.size());
  Part before{.kind = Kind::embedding};
  for (size_t n = 0; n < out.size(); ++n) {
    if (!own[n]) continue;
    if (own[n]->kind != Kind::none)
      before = out[n] = *own[n];
    else
      out[n] = n < first ? Part{Kind::embedding} : n > last ? Part{Kind::output} : before;
  }
  return out;
}

int64_t n_layers(std::span<const Part> parts) {
  int64_t n = 0;
  for (const Part& part : parts) n = std::max(n, int64_t{part.layer_idx} + 1);
  return n;
}

size_t Placement::at(const Part& part) const {
  switch (part.kind) {
    case Kind::embedding:
      return embedding;
    case Kind::layer:
      return layers[static_cast<size_t>(part.layer_idx)];
    case Kind::experts:
      return experts[static_cast<size_t>(part.layer_idx)];
    case Kind::output:
      return output;
    case Kind::none:
      break;
  }
  CHECK(false, "a node without a part has no place of its own");
  return 0;
}

Result<Placement> place(std::span<const Accelerator> accelerators, const PlacementOptions& options) {
  CHECK(!accelerators.empty());
  const PartBytes& parts = accelerators.front().parts;
  for (const Share& share : shares(parts, options))
    if (auto placement = lay_out(accelerators, share)) return std::move(*placement);
  PlacementOptions fits = options;
  fits.n_gpu_layers = kAuto;
  const Placement other = TRY(place(accelerators, fits));
  const size_t host = accelerators.size(), n = parts.layers.size();
  const auto on_host = [host](const std::vector<size_t>& v) { return std::ranges::count(v, host); };
  std::string hint = fmt::format("--n-gpu-layers {} would fit", static_cast<int64_t>(n) - on_host(other.layers));
  if (sum(parts.experts) > 0) hint += fmt::format(" with --n-cpu-moe {}", on_host(other.experts));
  const auto asked = std::min(static_cast<int64_t>(n), options.n_gpu_layers);
  return Error{.code = ErrorCode::out_of_memory,
               .what = fmt::format("{} of {} layers do not fit: the whole model with its KV cache needs {}, {} of GPU "
                                   "memory may be used",
                                   asked, n, gib(total_bytes(parts)), gib(total_budget(accelerators))),
               .where = "--n-gpu-layers",
               .hint = hint + "; without these settings as much as fits goes to the GPU"};
}

std::string describe(const Placement& placement, std::span<const Accelerator> accelerators) {
  const size_t host = accelerators.size(), n = placement.layers.size();
  const PartBytes& parts = accelerators.front().parts;
  int64_t n_layers = 0, n_experts = 0, n_with_experts = 0;
  for (size_t layer = 0; layer < n; ++layer) {
    n_layers += placement.layers[layer] == host;
    if (parts.experts[layer] == 0) continue;
    ++n_with_experts;
    n_experts += placement.experts[layer] == host;
  }
  std::string what;
  const auto add = [&what](std::string text) { what += (what.empty() ? "" : ", ") + std::move(text); };
  if (n_layers > 0) add(fmt::format("{} of {} layers", n_layers, n));
  if (n_experts > n_layers) add(fmt::format("{} of {} layers' experts", n_experts, n_with_experts));
  if (what.empty() && placement.embedding == host) add("the token embedding");
  if (what.empty()) return {};
  const uint64_t needed = total_bytes(parts), budget = total_budget(accelerators);
  return what + " on the CPU" +
         (needed > budget
              ? fmt::format(": {} do not fit in {} of GPU memory that may be used", gib(needed), gib(budget))
              : "");
}

}  // namespace tokamak::split
