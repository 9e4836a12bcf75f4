// Any pattern: refused with a reason, or a grammar whose masks are exactly what it accepts; the same inside a schema.
#include "base/check.h"
#include "fuzz_target.h"
#include "grammar_walk.h"

using namespace tokamak;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), n_bytes);
  fuzz::check_grammar(Grammar::from_regex(text, fuzz::small_limits()), text);
  Json schema = Json::object();
  schema["type"] = "string";
  schema["pattern"] = text;
  if (n_bytes % 2) schema["maxLength"] = n_bytes;
  fuzz::check_grammar(Grammar::from_json_schema(schema, fuzz::small_limits()), text);
  return 0;
}
