// How far a result may be from the reference, from the arithmetic alone: a running error analysis of the case's graph.
//
// Every value carries a bound on the distance between what a backend and what the reference may hold. An op adds what
// its own arithmetic may lose, in any order of summation, and passes on what its operands carry:
//   u = 2^-24; a sum of n products:  n * u * sum |a_i b_i|       (Higham 2002, section 3.1 and 3.3)
//   codes of quantized matmuls:      half a step of the group's largest |x| per element, times |w|
//   inputs rounded to binary16:      2^-11 |x| per element, times |w|
//   F32 factors as two binary16 each: 2^-22 of either, the product of the low ones left out: 3 * 2^-22 |w x|
//   attention in binary16:           2^-11 for each factor of a product, of scores and of the result
//   BF16 weights, and cached values, decoded to binary16: 2^-25 each where they are below its normal numbers
//   stored f32:                      u * |y| for each of the two that are compared
// Fused groups only drop roundings or change the order of sums, so one bound holds for fused and unfused.
// Non-goal: tight bounds. Published tolerances on the mean error (max_nmse) stand beside them.
#pragma once

#include <cstdint>
#include <vector>

#include "check/run.h"

namespace tokamak::check {

inline constexpr double kUnit = 0x1p-24;        // relative rounding error of f32
inline constexpr double kHalfNormal = 0x1p-14;  // binary16: the least normal number
inline constexpr double kHalfTiny = 0x1p-25;    // and half a step below it

// The integer codes that inputs of quantized matmuls are rounded to.
struct Arithmetic {
  double max_code = 127;  // the largest |x| of a group becomes it
  int64_t group_elems = 32;
  // Products with F16 and BF16 weights of more columns (of experts: tokens) may round their inputs to binary16.
  int64_t half_products_above = INT64_MAX;
  // Products with F32 weights of as many columns may split both factors into two binary16 (weights times 16).
  int64_t split_products_from = INT64_MAX;
  // Steps of more tokens may round queries, decoded keys and values, and softmax weights to binary16.
  int64_t half_attention_above = INT64_MAX;
  // Relative error of queries and softmax weights in products with a BF16 cache (two bf16 numbers each).
  double bf16_attention_error = 0;
};

// Of the CUDA backend, whatever --activations says.
inline constexpr Arithmetic kCudaArithmetic{
    .half_products_above = 3, .split_products_from = 128, .half_attention_above = 64, .bf16_attention_error = 0x1p-16};

struct Bounded {
  std::vector<float> x;
  std::vector<double> bound;
};

struct Expected {
  std::vector<Bounded> outputs, values;  // as in RunOutcome
  Bounded states;
  bool is_ambiguous = false;  // scores lie so close that a backend may choose others: draw other numbers
};

// Runs the case on the reference backend and bounds what another may make of it. Errors: those of the reference.
Result<Expected> expect(const Case& c, Backend& reference, const Arithmetic& arithmetic);

// Largest published NMSE that the ops of the graph may show. Source: the tolerances of ggml's test-backend-ops.
double max_nmse(const ir::Graph& graph);

}  // namespace tokamak::check
