// Any JSON: refused with a reason, or a grammar whose masks are exactly what it accepts and whose outputs are JSON.
#include "base/check.h"
#include "fuzz_target.h"
#include "grammar_walk.h"

using namespace tokamak;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), n_bytes);
  const auto schema = parse_json(text, "schema");
  if (!schema) return 0;
  const std::string output = fuzz::check_grammar(Grammar::from_json_schema(*schema, fuzz::small_limits()), text);
  if (!output.empty()) CHECK(parse_json(output, "output").has_value(), output);
  return 0;
}
