// Types chosen by measurement: every candidate type is tried on a sample of each tensor's rows, and bits go where they
// remove most error.
#pragma once

#include <functional>

#include "base/result.h"
#include "gguf/gguf.h"
#include "quantize/plan.h"

namespace tokamak {

// Sets the types (and measured errors) of the plan's quantizable tensors that no flag has fixed, so that all tensors
// together take at most options.target_bpw bits per element, and the sum over tensors of
//   sum_ij importance_j (w_ij - w'_ij)^2 / sum_ij importance_j w_ij^2     (importance 1 without an imatrix)
// is as small as bytes traded one upgrade at a time can make it: per tensor the lower convex hull of (bytes, error),
// then the upgrades of all hulls in the order of error removed per byte. This is the error that a tensor adds to its
// own output relative to that output, when the inputs are uncorrelated.
// `progress` as in QuantizeRun. Errors: bad_argument when even the smallest types need more (it says how much),
// unsupported, bad_tensor (inf or NaN in a sampled row), cancelled. Same answer for any number of threads.
Result<void> choose_types(const GgufFile& file, const QuantizeOptions& options, int n_threads,
                          const std::function<bool(double fraction)>& progress, Plan& plan);

// The same sum for the types that the plan has; each tensor's part is set. Errors: as choose_types.
Result<double> measure_plan(const GgufFile& file, const QuantizeOptions& options, int n_threads, Plan& plan);

// The file type of the type that holds most elements.
FileType dominant_file_type(std::span<const GgufTensor> tensors, const Plan& plan);

}  // namespace tokamak
