// Time of a token mask per step, over documents that fit their constraint and over random outputs.
//   grammar_bench MODEL.gguf [--vocab N]
// --vocab: only the first N tokens. CPU time. "cold": nothing cached; "prepared": prepare_masks() had 100 ms; "warm":
// second walk.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "grammar/grammar.h"
#include "grammar/state.h"
#include "tokenizer/from_gguf.h"

namespace tokamak {
namespace {

struct Case {
  const char* name;
  const char* schema;    // empty: any JSON object
  const char* document;  // an output
};

constexpr Case kCases[] = {
    {"person",
     R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
      "email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string","maxLength":40},"maxItems":10},
      "address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"},"zip":{"type":"string","pattern":"^\\d{5}$"}},"required":["street","city"]}},
      "required":["name","age"]})",
     "{\n  \"name\": \"Ada Lovelace, countess of somewhere\",\n  \"age\": 36,\n  \"email\": \"ada@example.org\",\n  "
     "\"tags\": [\"mathematics\", "
     "\"engines\", \"poetry\"],\n  \"address\": {\n    \"street\": \"12 St James's Square\",\n    \"city\": "
     "\"London\",\n    \"zip\": "
     "\"12345\"\n  }\n}"},
    {"tool call",
     R"({"anyOf":[{"type":"object","properties":{"name":{"const":"get_weather"},"arguments":{"type":"object","properties":{"city":{"type":"string","maxLength":200},"unit":{"enum":["celsius","fahrenheit"]},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"]}},"required":["name","arguments"]},
      {"type":"object","properties":{"name":{"const":"search"},"arguments":{"type":"object","properties":{"query":{"type":"string","minLength":3,"maxLength":500},"limit":{"type":"integer"}},"required":["query"]}},"required":["name","arguments"]}]})",
     R"({"name": "search", "arguments": {"query": "how do pushdown automata recognise nested structures in practice", "limit": 20}})"},
    {"any object", "",
     R"({"a": {"b": [1, 2.5e3, {"c": "some text here, with words", "d": [true, null, [[["deep"]]]]}]}, "e": "\u00e9 and \"quotes\""})"},
    {"short strings",
     R"({"type":"array","items":{"type":"string","minLength":5,"maxLength":20},"minItems":2,"maxItems":100})",
     R"(["walnut tree", "hedgehog", "seventeen", "lighthouse keeper", "gravel"])"},
    {"pattern",
     R"({"type":"object","properties":{"id":{"type":"string","pattern":"[a-z]+-\\d{3}"},"slug":{"type":"string","pattern":"^[a-z0-9]+(-[a-z0-9]+)*$","maxLength":60}},"required":["id","slug"]})",
     R"({"id": "see order-123 for more", "slug": "a-long-walk-on-the-beach"})"},
};

// CPU time of this thread: other work on the machine does not show.
double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void report(const char* name, const char* kind, std::vector<double> times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return 1e6 * times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
  };
  fmt::print("{:14} {:9} {:5} steps  p50 {:8.1f} us  p99 {:8.1f} us  max {:8.1f} us\n", name, kind, times.size(),
             at(0.5), at(0.99), at(1.0));
}

std::vector<double> walk(const Grammar::Ptr& grammar, const VocabTrie::Ptr& trie, const std::vector<int32_t>& tokens) {
  std::vector<double> times;
  std::vector<uint64_t> bits(trie->n_words());
  GrammarState state(grammar, trie);
  for (const int32_t token : tokens) {
    const double start = seconds();
    state.fill_mask(bits);
    times.push_back(seconds() - start);
    if (!state.accept(token)) {
      fmt::print("  the document does not fit at token {}\n", times.size());
      break;
    }
  }
  return times;
}

std::vector<double> random_walks(const Grammar::Ptr& grammar, const VocabTrie::Ptr& trie) {
  std::mt19937 random(5);
  std::vector<double> times;
  std::vector<uint64_t> bits(trie->n_words());
  std::vector<int32_t> allowed;
  for (int n = 0; n < 10; ++n) {
    GrammarState state(grammar, trie);
    for (int step = 0; step < 60 && !state.is_finished(); ++step) {
      const double start = seconds();
      state.fill_mask(bits);
      times.push_back(seconds() - start);
      allowed.clear();
      for (int32_t id = 0; id < trie->n_vocab(); ++id)
        if (bits[static_cast<size_t>(id) / 64] >> (id % 64) & 1) allowed.push_back(id);
      if (allowed.empty() || !state.accept(allowed[random() % allowed.size()])) break;
    }
  }
  return times;
}

void run_case(const Case& c, const std::vector<std::string>& pieces, const std::function<VocabTrie::Ptr()>& make_trie) {
  const double start = seconds();
  const auto grammar = *c.schema ? Grammar::from_json_schema(Json::parse(c.schema)) : Grammar::any_json_object();
  if (!grammar) return fmt::print("{}: {}\n", c.name, grammar.error().message());
  fmt::print("{:14} compiled in {:.1f} ms: {} states, {} KiB\n", c.name, 1e3 * (seconds() - start),
             (*grammar)->n_states(), (*grammar)->n_bytes() / 1024);
  std::vector<int32_t> tokens;
  // The longest token at each place: any vocabulary, cut or not, spells the document.
  for (std::string_view rest = c.document; !rest.empty();) {
    int32_t best = -1;
    for (int32_t id = 0; id < static_cast<int32_t>(pieces.size()); ++id) {
      const std::string& piece = pieces[static_cast<size_t>(id)];
      if (!piece.empty() && rest.starts_with(piece) &&
          (best < 0 || piece.size() > pieces[static_cast<size_t>(best)].size()))
        best = id;
    }
    if (best < 0) break;
    tokens.push_back(best);
    rest.remove_prefix(pieces[static_cast<size_t>(best)].size());
  }
  const VocabTrie::Ptr cold = make_trie();
  report(c.name, "cold", walk(*grammar, cold, tokens));
  report(c.name, "warm", walk(*grammar, cold, tokens));
  const VocabTrie::Ptr prepared = make_trie();
  const double before = seconds();
  const size_t n_ready = prepare_masks(*grammar, *prepared, std::chrono::milliseconds(100));
  fmt::print("{:14} {} masks prepared in {:.1f} ms\n", c.name, n_ready, 1e3 * (seconds() - before));
  report(c.name, "prepared", walk(*grammar, prepared, tokens));
  report(c.name, "random", random_walks(*grammar, prepared));
}

}  // namespace
}  // namespace tokamak

int main(int argc, char** argv) {
  using namespace tokamak;
  if (argc < 2) return fmt::print("grammar_bench MODEL.gguf [--vocab N]\n"), 2;
  const auto file = GgufFile::open(argv[1]);
  if (!file) return fmt::print("{}\n", file.error().message()), 1;
  const auto tokenizer = load_tokenizer(*file);
  if (!tokenizer) return fmt::print("{}\n", tokenizer.error().message()), 1;
  int32_t n_vocab = tokenizer->n_vocab();
  if (argc == 4 && std::strcmp(argv[2], "--vocab") == 0) n_vocab = std::min(n_vocab, std::atoi(argv[3]));
  std::vector<std::string> pieces;
  for (int32_t id = 0; id < n_vocab; ++id)
    pieces.push_back(tokenizer->is_control(id) ? std::string() : tokenizer->token_bytes(id));
  const auto make_trie = [&] { return VocabTrie::create(pieces, {}); };
  const double start = seconds();
  const auto trie = make_trie();
  fmt::print("{} tokens, {} nodes, tree built in {:.0f} ms\n", n_vocab, trie->n_nodes(), 1e3 * (seconds() - start));
  for (const Case& c : kCases) run_case(c, pieces, make_trie);
  return 0;
}
