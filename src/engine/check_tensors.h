// Reads every weight of a file once, looking for values that no computation survives.
#pragma once

#include "backend/backend.h"
#include "base/result.h"
#include "gguf/gguf.h"

namespace tokamak {

// Errors: bad_tensor, naming the first tensor, row and block with an infinity or NaN; cancelled.
Result<void> check_tensors(const GgufFile& file, const Progress& progress = {});

}  // namespace tokamak
