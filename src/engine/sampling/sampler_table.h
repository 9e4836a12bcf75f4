// The samplers a chain is made of.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/sampling/candidates.h"
#include "engine/sampling/history.h"
#include "engine/sampling/params.h"
#include "engine/sampling/vocab.h"

namespace tokamak {

// What a sampler works on in one step.
struct SamplerStep {
  const SamplerParams& params;
  Candidates& candidates;
  History& history;
  const SamplerVocab& vocab;
  uint64_t seed;
  uint64_t position;
};

struct SamplerRow {
  SamplerKind kind;
  char letter;
  std::string_view name;
  std::string_view alias;
  bool with_greedy;                              // still applied when the most probable token is taken
  bool with_mirostat;                            // still applied when Mirostat chooses
  bool (*is_idle)(const SamplerParams& params);  // changes nothing, whatever the logits
  void (*apply)(SamplerStep& step);
};

// One row per kind, in enum order.
std::span<const SamplerRow> sampler_rows();
inline const SamplerRow& sampler_row(SamplerKind kind) { return sampler_rows()[static_cast<size_t>(kind)]; }
// Whether it is part of the work that the parameters ask for.
bool takes_part(const SamplerRow& row, const SamplerParams& params);
// At least this many are kept by filters.
size_t min_keep(const SamplerParams& params);

// Streams of the random numbers drawn at one position.
inline constexpr uint32_t kChoiceStream = 0, kXtcStream = 1;

}  // namespace tokamak
