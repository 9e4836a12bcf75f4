// The norms, sums and delta nets of a model's graph, counted as published fusion baselines count them: a checksum of
// its structure that depends on no backend.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/model.h"

namespace tokamak {

// Groups by short name in the prefill graph of `n_tokens`, all of them outputs, with the rules of those baselines only:
// R and Rb (RMS norm with weight, and with an add behind it), L and Lb (layer norm), A2 to A7 (chains of adds), S
// (snake), G (delta net that writes its state).
Result<std::map<std::string, int>> structural_counts(const Model& model, int64_t n_tokens);

// "A2x2 Lb5", as in docs/reports/fused_norm_counts.md: chains of adds and delta nets first.
std::string structural_text(const std::map<std::string, int>& counts);

}  // namespace tokamak
