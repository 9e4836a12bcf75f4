// Any text: refused with a reason, or a grammar whose masks are exactly what it accepts, along a walk that the input
// chooses.
#include "base/check.h"
#include "fuzz_target.h"
#include "grammar_walk.h"

using namespace tokamak;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), n_bytes);
  fuzz::check_grammar(Grammar::from_gbnf(text, fuzz::small_limits()), text);
  return 0;
}
