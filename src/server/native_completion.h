// The native text completion: one form of request and answer for /completion and /infill.
#pragma once

#include "server/generation.h"

namespace tokamak::server {

// Generates from `prompts` (n_cmpl answers to each) as the fields say. Errors: those of reading the fields.
Result<void> complete_natively(const std::shared_ptr<Exchange>& exchange, ServerContext& context, const Fields& fields,
                               Api api, std::vector<std::vector<int32_t>> prompts);

}  // namespace tokamak::server
