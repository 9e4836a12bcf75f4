// eval --tensors: the weights of a quantized file beside those of its source.
#pragma once

#include "base/result.h"
#include "cli/command.h"

namespace tokamak::cli {

// --base-model, --imatrix, --plot and --json of `arguments`; prints tables or JSON. Errors: those of reading the files,
// compare_tensors and OutputFile.
Result<int> eval_tensors(const Arguments& arguments);

}  // namespace tokamak::cli
