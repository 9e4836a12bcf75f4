// Random weights, packed problems and the f64 reference for the matmul tests.
#pragma once

#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/matmul/matmul.h"

namespace tokamak::cpu {
inline void PrintTo(const GemmKernel& kernel, std::ostream* out) { *out << kernel.name; }  // for gtest
}  // namespace tokamak::cpu

namespace tokamak::cpu::test {

// 64-byte aligned bytes.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t n_bytes) : storage_(n_bytes + 64) {}
  std::byte* data() {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(storage_.data()) + 63) & ~uintptr_t{63});
  }
  const std::byte* data() const { return const_cast<AlignedBytes*>(this)->data(); }
  size_t size() const { return storage_.size() - 64; }

 private:
  std::vector<std::byte> storage_;
};

// What a weight block looks like.
enum class Fill { random, all_ones, all_zeros };  // bytes of the codes; scales stay finite and not zero

struct Matrix {
  DType dtype;
  int64_t n_rows, k;
  std::vector<std::byte> rows;  // as in a file
  size_t row_bytes() const { return dtype_bytes(dtype, static_cast<uint64_t>(k)); }
};

Matrix make_matrix(DType dtype, int64_t n_rows, int64_t k, uint32_t seed, Fill fill = Fill::random);
AlignedBytes pack(const Matrix& m);

std::vector<float> random_floats(size_t n, uint32_t seed, float scale = 1.0f);
// x f32 [n_cols, k]
AlignedBytes pack_columns(ActivationKind kind, Isa isa, const std::vector<float>& x, int64_t n_cols, int64_t k);
// The values that packed activations stand for, f64 [n_cols, k]: codes * d.
std::vector<double> unpack_columns(ActivationKind kind, const AlignedBytes& packed, int64_t n_cols, int64_t k);

// y f32 [n_cols, n_rows] of plain matmul by `kernel`.
std::vector<float> run(const GemmKernel& kernel, const Matrix& m, const AlignedBytes& weights,
                       const AlignedBytes& columns, int64_t n_cols);

// The exact result in f64, and for every element the sum of the magnitudes that the f32 steps add up.
struct Reference {
  std::vector<double> y, magnitude;  // [n_cols, n_rows]
};
Reference reference(const Matrix& m, const std::vector<double>& columns, int64_t n_cols);

// |computed - exact| <= n u / (1 - n u) * sum of magnitudes (Higham 2002, 3.1), u = 2^-24. n: f32 roundings that one
// term passes through: its group's conversion, scale products and fma (8), then up to three per later group.
double error_bound(ActivationKind kind, int64_t k, double magnitude);
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

inline constexpr GemmGlu kGemmGlus[] = {GemmGlu::reglu,     GemmGlu::geglu,       GemmGlu::swiglu,
                                        GemmGlu::geglu_erf, GemmGlu::geglu_quick, GemmGlu::swiglu_oai};
// The gated activation in f64, and how far a kernel may be from it.
struct GluValue {
  double y, bound;
};
GluValue glu_value(GemmGlu kind, double gate, double up, double alpha, double limit);

// Kernel rows this machine can run; prints the ones it cannot.
std::vector<GemmKernel> runnable_kernels();

}  // namespace tokamak::cpu::test
