// The parts of selftest. Each compares kernels of this build with the definition in f64, on this machine.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/result.h"

namespace tokamak::cli {

// Keeps the element that comes closest to its bound, or passes it.
class ErrorMeter {
 public:
  void add(double got, double exact, double bound) {
    const double error = std::abs(got - exact);
    const double share = std::isfinite(error) ? error / std::max(bound, 1e-300) : HUGE_VAL;
    if (n_++ > 0 && !(share > share_)) return;
    share_ = share;
    error_ = error;
    bound_ = bound;
  }
  double error() const { return error_; }
  double bound() const { return bound_; }
  bool passed() const { return n_ > 0 && share_ <= 1; }

 private:
  size_t n_ = 0;
  double share_ = 0, error_ = 0, bound_ = 0;
};

struct CheckResult {
  std::string name, isa;
  ErrorMeter meter;
  bool same_bits = true;  // as the scalar kernel; true where that is not promised
  bool passed() const { return meter.passed() && same_bits; }
};

// One unit in the last place of f32, relative: 2^-24.
inline constexpr double kUnit = 0x1p-24;

// The same for the same seed: numbers around 0 of about size 1.
inline std::vector<float> random_numbers(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  const auto part = [&random] { return static_cast<double>(random()) * 0x1p-32 - 0.5; };
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(part() + part() + part() + part());
  return out;
}

// isas: available ones, scalar first.
std::vector<CheckResult> check_matmul_kernels(const std::vector<cpu::Isa>& isas);
std::vector<CheckResult> check_op_kernels(const std::vector<cpu::Isa>& isas);
// Logits of a small model: reference backend against the CPU backend, fused and not. Errors: those of the engine.
Result<std::vector<CheckResult>> check_models(const std::vector<cpu::Isa>& isas);

}  // namespace tokamak::cli
