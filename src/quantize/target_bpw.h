// Types chosen by measurement: every candidate type is tried on a sample of each tensor's rows, and bits go where they
// remove most error.
#pragma once

#include <functional>

#include "base/result.h"
#include "gguf/gguf.h"
#include "quantize/plan.h"

namespace tokamak {

// How much a tensor's relative error counts. The error of the output matrix goes straight into the logits; each of the
// layers adds two of 2 n_layer contributions to the stream that the output matrix reads, so there one tensor's error is
// diluted by about 2 n_layer. Between the matrices of a layer the weights follow a measurement: on SmolLM2-135M one
// role at a time in Q4_0 cost, in KL divergence per tensor against the mean, attn_v 2.3, ffn_down 1.9, ffn_up 1.2, the
// others 0.4, the output matrix 58 (n_layer = 30), and the tensors of the last layer 4.3.
double sensitivity(TensorRole role, int64_t layer, const MixModel& model);

// Sets the types (and measured errors) of the plan's quantizable tensors that no flag has fixed, so that all tensors
// together take at most options.target_bpw bits per element, and the sum over tensors of sensitivity times
//   sum_ij importance_j (w_ij - w'_ij)^2 / sum_ij importance_j w_ij^2     (importance 1 without an imatrix)
// is as small as bytes traded one upgrade at a time can make it: per tensor the lower convex hull of (bytes, error),
// then the upgrades of all hulls in the order of error removed per byte. The quotient is the error that a tensor adds
// to its own output relative to that output, when the inputs are uncorrelated.
// `progress` as in QuantizeRun. Errors: bad_argument when even the smallest types need more (it says how much),
// unsupported, bad_tensor (inf or NaN in a sampled row), cancelled. Same answer for any number of threads.
Result<void> choose_types(const GgufFile& file, const QuantizeOptions& options, int n_threads,
                          const std::function<bool(double fraction)>& progress, Plan& plan);

// The same sum for the types that the plan has; each tensor's part is set. Errors: as choose_types.
Result<double> measure_plan(const GgufFile& file, const QuantizeOptions& options, int n_threads, Plan& plan);

// The file type named like the type that holds most elements, else the first that gives this type.
FileType dominant_file_type(std::span<const GgufTensor> tensors, const Plan& plan);

}  // namespace tokamak
