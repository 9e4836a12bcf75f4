#include "backend/cpu/isa.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tokamak::cpu {

#if defined(__x86_64__)
namespace {
bool has_f16c() {  // clang 16 has no name for it in __builtin_cpu_supports
  // Asked once: the instruction costs tens of microseconds in a virtual machine.
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  }();
  return has;
}
}  // namespace
#endif

std::optional<Isa> find_isa(std::string_view name) {
  for (const IsaRow& row : kIsas)
    if (row.name == name) return row.isa;
  return std::nullopt;
}

bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return true;
#if defined(__x86_64__)
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vnni") && isa_available(Isa::avx2);
#elif defined(__aarch64__)
    case Isa::neon: {
      const unsigned long caps = getauxval(AT_HWCAP);
      return (caps & HWCAP_ASIMDDP) && (caps & HWCAP_ASIMDHP);
    }
#endif
    default:
      return false;
  }
}

Isa best_isa() {
  for (Isa isa : {Isa::avx512, Isa::avx2, Isa::neon})
    if (isa_available(isa)) return isa;
  return Isa::scalar;
}

}  // namespace tokamak::cpu
