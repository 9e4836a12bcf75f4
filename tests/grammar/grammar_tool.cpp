// Helper of tools/grammar_oracle.py: grammar_tool N_SAMPLES SEED < schemas > samples
// Input: one JSON Schema per line. Output: one line of JSON per schema, {"error": text} or
// {"notes": [{path, keyword}], "samples": [{text, finished}]}.
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "grammar/sample_helpers.h"

int main(int argc, char** argv) {
  using namespace tokamak;
  if (argc != 3) return fmt::print(stderr, "usage: {} N_SAMPLES SEED\n", argv[0]), 2;
  const int n_samples = std::atoi(argv[1]);
  std::mt19937 random(static_cast<uint32_t>(std::atoi(argv[2])));
  const auto trie = test::json_trie();
  constexpr int kMaxTokens = 600;
  for (std::string line; std::getline(std::cin, line);) {
    Json out = Json::object();
    const auto grammar = Grammar::from_json_schema(Json::parse(line));
    if (!grammar) {
      out["error"] = grammar.error().message();
    } else {
      out["notes"] = Json::array();
      for (const SchemaNote& note : (*grammar)->notes())
        out["notes"].push_back(Json{{"path", note.path}, {"keyword", note.keyword}});
      out["samples"] = Json::array();
      for (int i = 0; i < n_samples; ++i) {
        const test::Sample one = test::sample(*grammar, trie, random, kMaxTokens);
        if (!one.error.empty()) out["error"] = one.error + " after " + one.text;
        out["samples"].push_back(Json{{"text", one.text}, {"finished", one.finished}});
      }
    }
    fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}
