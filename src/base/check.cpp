#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tokamak::detail {

void check_failed(const char* condition, const char* file, int line, const std::string& values) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s%s%s\n", file, line, condition,
               values.empty() ? "" : "; values:", values.c_str());
  std::abort();
}

}  // namespace tokamak::detail
