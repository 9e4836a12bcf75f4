#include "ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/builder.h"
#include "ir/random_graph_helpers.h"

namespace tokamak::ir {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kSmall = R"(graph "small" grouped {
  %0 = weight token_embd.weight : q8_0 [10, 32]
  %1 = input tokens : i32 [3] role=tokens
  %3 = weight "norm weight" : f32 [32]
  %6 = state cache_k.0 : f16 [8, 2, 16] role=k layer=0
  %7 = input slots : i32 [3] role=slots
  %2 = GET_ROWS token_embd.weight, tokens : f32 [3, 32] name=embd
  group 2 RMS_NORM+MUL {
    %4 = RMS_NORM %2 : f32 [3, 32] eps=1e-05
    %5 = MUL %4, "norm weight" : f32 [3, 32] name="blk.0 \"n\""
  }
  %8 = RESHAPE %5 : f32 [3, 2, 16] dims=[3, 2, 16]
  %9 = SET_ROWS cache_k.0, %8, slots : f16 [8, 2, 16]
  %10 = SCALE %5 : f32 [3, 32] scale=0.1 bias=-0
  return %10, %5
}
)";

TEST(Text, PrintsAndParsesTheDocumentedForm) {
  auto g = parse_text(kSmall);
  ASSERT_TRUE(g) << g.error().message();
  EXPECT_EQ(to_text(*g), kSmall);
  EXPECT_EQ(g->name, "small");
  EXPECT_EQ(g->nodes.size(), 6u);
  EXPECT_EQ(g->groups.size(), 5u);
  EXPECT_EQ(g->groups[1].rule, 2);
  EXPECT_EQ(g->groups[1].nodes, (std::vector<NodeId>{1, 2}));
  EXPECT_EQ(g->outputs, (std::vector<ValueId>{10, 5}));
  EXPECT_EQ(g->value(5).name, "blk.0 \"n\"");
  EXPECT_EQ(g->value(9).storage, 6u);
  EXPECT_TRUE(std::signbit(g->nodes[5].attrs.number(Attr::bias)));
}

TEST(Text, CommentsAndLayoutDoNotMatter) {
  std::string text = "# a report\n";
  for (char c : std::string(kSmall)) text += c == '\n' ? std::string(" # x = %\r\n\n\t") : std::string(1, c);
  auto g = parse_text(text);
  ASSERT_TRUE(g) << g.error().message();
  EXPECT_EQ(to_text(*g), kSmall);
}

TEST(Text, RandomGraphsRoundTrip) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Graph g = random_graph(seed);
    if (seed % 2) {  // groups of up to three nodes
      std::mt19937 rng(seed);
      for (NodeId id = 0; id < g.nodes.size();) {
        Group group{.nodes = {id++}};
        for (uint32_t more = rng() % 3; more > 0 && id < g.nodes.size(); --more) group.nodes.push_back(id++);
        const bool only_views = member_ops(g, group).empty();
        if (only_views)
          while (group.nodes.size() > 1) group.nodes.pop_back(), --id;
        if (group.nodes.size() > 1) group.rule = static_cast<uint16_t>(rng() % 1000);
        g.groups.push_back(std::move(group));
      }
    }
    const std::string text = to_text(g);
    auto back = parse_text(text);
    ASSERT_TRUE(back) << "seed " << seed << ": " << back.error().message() << "\n" << text;
    EXPECT_TRUE(*back == g) << "seed " << seed << "\n" << text;
    EXPECT_EQ(to_text(*back), text) << "seed " << seed;
  }
}

struct Bad {
  const char* from;
  const char* to;
  const char* says;
};

TEST(Text, BoundaryInputsHaveAnIndex) {
  GraphBuilder b("part");
  const ValueId x = b.boundary(0, DType::f32, {3, 8});
  b.output(b.get_rows(x, b.boundary(1, DType::i32, {2})));
  const Graph g = *b.finish();
  const std::string text = to_text(g);
  EXPECT_NE(text.find("%1 = input boundary.1 : i32 [2] role=boundary index=1"), std::string::npos) << text;
  const auto back = parse_text(text);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_TRUE(*back == g);
}

TEST(Text, ErrorsSayLineAndColumn) {
  const Bad cases[] = {
      {"graph", "grape", "line 1, column 1: expected 'graph', found 'grape'"},
      {"\"small\"", "small", "line 1, column 7: expected the graph's name in quotes"},
      {"\"small\"", "\"small", "line 1, column 7: the string does not end on its line"},
      {"norm weight\" :", "norm \\q\" :", "line 4, column 15: a string knows the escapes"},
      {"norm weight\" :", "norm \\x4\" :", "line 4, column 15: \\x in a string"},
      {"token_embd.weight :", "token_embd.weight ;", "line 2, column 33: unexpected character"},
      {"q8_0 [10, 32]", "q9_0 [10, 32]", "line 2, column 35: expected a tensor type, found 'q9_0'"},
      {"q8_0 [10, 32]", "q8_0 [10, 30]", "line 2, column 35: Q8_0 [10, 30]: rows of 30"},
      {"q8_0 [10, 32]", "f32 [0, 32]", "line 2, column 35: F32 [0, 32]: dimension 0 is 0"},
      {"[10, 32]", "[10, 32, 1, 1, 32]", "line 2, column 55: expected at most 4 dimensions"},
      {"[10, 32]", "[99999999999999999999]", "expected a dimension"},
      {"[10, 32]", "[1e3]", "expected a dimension"},
      {"role=tokens", "role=none", "line 3, column 36: expected a role"},
      {"role=tokens", "", "line 4, column 3: expected 'role', found '%3'"},
      {"layer=0", "layer=99999999999", "expected the number of a layer"},
      {"role=slots", "role=boundary", "expected 'index'"},
      {"layer=0", "layer=-1", "exactly the states have a layer"},
      {"%3 = weight", "%1 = weight", "line 4, column 3: %1 is defined twice"},
      {"%3 = weight", "%11 = weight", "line 4, column 3: %11: values are numbered from 0 to 10"},
      {"%3 = weight", "%99999999999999999999 = weight", "values are numbered from 0 to 10"},
      {"%3 = weight", "% = weight", "line 4, column 3: digits must follow '%'"},
      {"\"norm weight\" :", "tokens :", "line 4, column 15: a second leaf named 'tokens'"},
      {"  %2 = GET", "  %11 = weight \"\" : f32 [1]\n  %2 = GET", "a weight, state or input needs a name"},
      {"GET_ROWS", "GET_ROW", "line 7, column 8: there is no op 'GET_ROW'"},
      {"weight, tokens :", "weight, token :", "line 7, column 36: there is no weight, state or input 'token'"},
      {"RMS_NORM %2", "RMS_NORM %5", "line 9, column 19: %5 is not defined above"},
      {"RMS_NORM %2", "RMS_NORM", "line 9, column 19: expected a name, found ':'"},
      {"RMS_NORM %2 ", "RMS_NORM %2, %2 ", "line 9, column 10: RMS_NORM: takes x (1 to 1 operands), not 2"},
      {"%4 = RMS_NORM %2 : f32 [3, 32]", "%4 = RMS_NORM %2 : f32 [3, 31]",
       "line 9, column 24: the result is F32 [3, 32]"},
      {"eps=1e-05", "eps=1e-05 eps=1", "line 9, column 46: eps is given twice"},
      {"eps=1e-05", "eps=tiny", "line 9, column 40: expected a number, found 'tiny'"},
      {"eps=1e-05", "eps=1e", "expected a number, found '1e'"},
      {"eps=1e-05", "eps=-nan", "attribute eps=-nan is outside 0 to 1"},
      {"eps=1e-05", "eps=1e999", "expected a number"},
      {"eps=1e-05", "mu=1", "line 9, column 36: there is no attribute 'mu'"},
      {"eps=1e-05", "", "line 9, column 10: RMS_NORM: attribute eps is missing"},
      {"name=embd", "name=embd name=e", "line 7, column 67: a second name"},
      {"name=embd", "name=slots", "two values have this name"},
      {"group 2 ", "group 65535 ", "line 8, column 9: expected the row of a fusion rule"},
      {"group 2 ", "group two ", "expected the row of a fusion rule"},
      {"RMS_NORM+MUL {", "RMS_NORM+ADD {", "line 8, column 3: the group's ops are RMS_NORM+MUL, not RMS_NORM+ADD"},
      {" grouped", "", "only a graph marked 'grouped' has groups"},
      {"return %10, %5", "return %10, %6", "an output must be a result of a node that writes no state"},
      {"return %10, %5", "return %99", "line 15, column 10: %99 is not defined above"},
      {"return %10, %5", "%11 = weight w : f32 [1] return %10", "leaves stand before the first op"},
      {"return %10, %5\n}", "return %10, %5\n} x", "line 16, column 3: expected the end, found 'x'"},
      {"return %10, %5\n}", "return %10, %5", "line 16, column 1: expected '}', found the end"},
      {"cache_k.0, %8", "token_embd.weight, %8", "SET_ROWS(cache Q8_0 [10, 32], x F32 [3, 2, 16], slots I32 [3])"},
  };
  for (const Bad& c : cases) {
    std::string text = kSmall;
    const size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    text.replace(at, std::string(c.from).size(), c.to);
    auto g = parse_text(text);
    ASSERT_FALSE(g) << c.to;
    EXPECT_THAT(g.error().message(), HasSubstr(c.says)) << c.to;
  }
}

TEST(Text, EveryPrefixAndEveryDamagedByteGivesAnAnswer) {
  const std::string text = kSmall;
  for (size_t n = 0; n + 3 < text.size(); ++n) EXPECT_FALSE(parse_text(text.substr(0, n))) << n;
  for (size_t i = 0; i < text.size(); ++i)
    for (const char c : {'\0', '%', '"', '9', '\xFF', '}'}) {
      std::string damaged = text;
      damaged[i] = c;
      const auto g = parse_text(damaged);
      EXPECT_TRUE(!g || *parse_text(to_text(*g)) == *g) << i;
    }
}

TEST(Text, HostileSizesAreRefusedWithoutMemory) {
  EXPECT_FALSE(parse_text(""));
  EXPECT_THAT(parse_text("graph \"\" { %4294967295 = weight w : f32 [1] return }").error().message(),
              HasSubstr("values are numbered from 0 to 0"));
  EXPECT_THAT(parse_text("graph \"\" { %0 = weight w : f32 [17592186044416, 2] return }").error().message(),
              HasSubstr("elements"));
  EXPECT_THAT(parse_text("graph \"\" { %0 = weight w : f32 [1] return }").error().message(),
              HasSubstr("no output and writes no state"));
  EXPECT_THAT(parse_text(std::string((size_t{64} << 20) + 1, ' ')).error().message(), StartsWith("graph text: "));
}

}  // namespace
}  // namespace tokamak::ir
