#include "backend/cpu/isa.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tokamak::cpu {

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
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
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
