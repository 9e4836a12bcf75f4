#include "engine/output/output_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/utf8.h"

namespace tokamak {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Events = std::vector<OutputEvent>;

OutputMachine machine(const OutputOptions& options) { return OutputMachine::create(options).value(); }
OutputOptions thinking() { return {.reasoning_start = "<think>", .reasoning_end = "</think>"}; }

OutputEvent text(std::string s) { return {OutputKind::text, -1, std::move(s)}; }
OutputEvent thought(std::string s) { return {OutputKind::reasoning, -1, std::move(s)}; }
OutputEvent tag(std::string s) { return {OutputKind::tag, -1, std::move(s)}; }
OutputEvent payload(int marker, std::string s) { return {OutputKind::payload, marker, std::move(s)}; }

void append(Events& all, const Events& more) {
  for (const OutputEvent& event : more) {
    EXPECT_TRUE(!event.text.empty() && is_valid_utf8(event.text));
    if (!all.empty() && all.back().kind == event.kind && all.back().marker == event.marker)
      all.back().text += event.text;
    else
      all.push_back(event);
  }
}

// The joined events of `pieces`, each pushed by itself.
Events run(OutputMachine m, const std::vector<std::string>& pieces) {
  Events all;
  for (const std::string& piece : pieces) append(all, m.push(piece));
  append(all, m.finish());
  return all;
}

TEST(OutputMachine, NeverSplitsACharacter) {
  OutputMachine m = machine({});
  EXPECT_THAT(m.push("a\xF0\x9F"), ElementsAre(text("a")));
  EXPECT_THAT(m.push("\xA6"), IsEmpty());
  EXPECT_THAT(m.push("\x94z"), ElementsAre(text("🦔z")));
  EXPECT_THAT(m.push("\xD1"), IsEmpty());
  EXPECT_THAT(m.finish(), ElementsAre(text("\uFFFD")));
  EXPECT_THAT(m.finish(), IsEmpty());
  EXPECT_THAT(m.push("late"), IsEmpty());
}

TEST(OutputMachine, CutCharacterIsReplacedOnce) {
  EXPECT_THAT(run(machine({}), {"ab\xF0\x9F\xA6"}), ElementsAre(text("ab\uFFFD")));
  EXPECT_THAT(run(machine({}), {"\xF0\x9F", "x"}), ElementsAre(text("\uFFFDx")));
  EXPECT_THAT(run(machine({}), {"\x80\xFF"}), ElementsAre(text("\uFFFD\uFFFD")));
  EXPECT_THAT(run(machine({.stops = {"END"}}), {"\xF0\x9F", "END"}), ElementsAre(text("\uFFFD")));
}

// Hard case 34: ALFA BRAVO CHARLIE.
TEST(Stops, SpanTokensAndReleaseTheTail) {
  OutputMachine m = machine({.stops = {"VO CH"}});
  EXPECT_THAT(m.push("ALFA BRA"), ElementsAre(text("ALFA BRA")));
  EXPECT_THAT(m.push("VO"), IsEmpty());
  EXPECT_THAT(m.push(" "), IsEmpty());
  EXPECT_THAT(m.push("CHARLIE"), IsEmpty());
  EXPECT_EQ(m.matched_stop(), 0u);
  EXPECT_THAT(m.finish(), IsEmpty());

  OutputMachine partial = machine({.stops = {"CHARLIE\nZZZZ"}});
  EXPECT_THAT(partial.push("BRAVO CHARLIE\nZZZ"), ElementsAre(text("BRAVO ")));
  EXPECT_THAT(partial.finish(), ElementsAre(text("CHARLIE\nZZZ")));
  EXPECT_FALSE(partial.stopped());

  EXPECT_THAT(run(machine({.stops = {"E"}}), {"ALFA BRAVO CHARLIE", "XX"}), ElementsAre(text("ALFA BRAVO CHARLI")));
  EXPECT_THAT(run(machine({.stops = {"ALFA"}}), {"ALFA", " BRAVO"}), IsEmpty());
}

TEST(Stops, HoldBackOnlyWhatMayBecomeAStop) {
  OutputMachine m = machine({.stops = {"ababac"}});
  EXPECT_THAT(m.push("xababa"), ElementsAre(text("x")));
  EXPECT_THAT(m.push("b"), ElementsAre(text("ab")));  // "abab" may go on
  EXPECT_THAT(m.push("ac"), IsEmpty());
  EXPECT_TRUE(m.stopped());
}

TEST(Stops, EarliestEndWinsThenTheLongest) {
  const auto matched = [](std::vector<std::string> stops, const std::string& input) {
    OutputMachine m = machine({.stops = stops});
    Events out = m.push(input);
    return std::pair(out.empty() ? "" : out[0].text, m.matched_stop() ? stops[*m.matched_stop()] : "none");
  };
  EXPECT_EQ(matched({"ABC", "AB"}, "xABC"), std::pair(std::string("x"), std::string("AB")));
  EXPECT_EQ(matched({"E", "CHARLIE"}, "xCHARLIE"), std::pair(std::string("x"), std::string("CHARLIE")));
  EXPECT_EQ(matched({"ABCD", "C"}, "xABCD"), std::pair(std::string("xAB"), std::string("C")));
  EXPECT_EQ(matched({"🦔!", "\n"}, "a🦔🦔!\n"), std::pair(std::string("a🦔"), std::string("🦔!")));
}

TEST(Stops, BadOnesAreRefused) {
  const auto message = [](OutputOptions options) { return OutputMachine::create(options).error().message(); };
  EXPECT_EQ(message({.stops = {"a", ""}}),
            "stop: a stop string is empty (leave it out or give at least one character)");
  EXPECT_THAT(message({.stops = {"\xF0\x9F"}}), HasSubstr("stop: not valid UTF-8"));
  EXPECT_THAT(message({.stops = std::vector<std::string>(257, "x")}), HasSubstr("257 stop strings"));
  EXPECT_THAT(message({.stops = {std::string(65537, 'x')}}), HasSubstr("more than 65536 bytes"));
  EXPECT_THAT(message({.reasoning_start = "<think>"}), HasSubstr("only one of start and end"));
  EXPECT_THAT(message({.starts_in_reasoning = true}), HasSubstr("no end tag"));
  EXPECT_THAT(message({.markers = {{"", "x"}}}), HasSubstr("tool markers: an opening marker is empty"));
  EXPECT_TRUE(OutputMachine::create({.stops = std::vector<std::string>(64, "same")}).has_value());
}

TEST(Reasoning, TagsMaySpanTokens) {
  const std::vector<std::string> pieces = {"<th", "ink", ">\nhmm <", "/thin", "k>", "\n\n", "four"};
  EXPECT_THAT(run(machine(thinking()), pieces),
              ElementsAre(tag("<think>\n"), thought("hmm "), tag("</think>\n\n"), text("four")));
  OutputMachine m = machine(thinking());
  EXPECT_EQ(m.channel(), OutputKind::text);
  m.push("<think>a");
  EXPECT_EQ(m.channel(), OutputKind::reasoning);
  m.push("</think>");
  EXPECT_EQ(m.channel(), OutputKind::text);
}

TEST(Reasoning, SecondBlockNestedStartStrayEndNeverClosed) {
  EXPECT_THAT(run(machine(thinking()), {"<think>a</think>b<think>c</think>d"}),
              ElementsAre(tag("<think>"), thought("a"), tag("</think>"), text("b"), tag("<think>"), thought("c"),
                          tag("</think>"), text("d")));
  EXPECT_THAT(run(machine(thinking()), {"<think>a<think>b</think>c</think>d"}),
              ElementsAre(tag("<think>"), thought("a"), tag("<think>"), thought("b"), tag("</think>"), text("c"),
                          tag("</think>"), text("d")));
  EXPECT_THAT(run(machine(thinking()), {"<think>a</thin"}), ElementsAre(tag("<think>"), thought("a</thin")));
  OutputOptions open = thinking();
  open.starts_in_reasoning = true;
  EXPECT_THAT(run(machine(open), {"a</think>b"}), ElementsAre(thought("a"), tag("</think>"), text("b")));
}

// Hard case 37: a thought that quotes its own closing tag.
TEST(Reasoning, TagsInBackticksAreText) {
  EXPECT_THAT(run(machine(thinking()), {"<think>write `</think>`, then</think>ok"}),
              ElementsAre(tag("<think>"), thought("write `</think>`, then"), tag("</think>"), text("ok")));
  EXPECT_THAT(run(machine(thinking()), {"<think>lone `</think>ok"}),
              ElementsAre(tag("<think>"), thought("lone `"), tag("</think>"), text("ok")));
  EXPECT_THAT(run(machine(thinking()), {"<think>lone `</think>"}),
              ElementsAre(tag("<think>"), thought("lone `"), tag("</think>")));
  EXPECT_THAT(run(machine(thinking()), {"use `<think>` here"}), ElementsAre(text("use `<think>` here")));
  EXPECT_THAT(run(machine(thinking()), {"<think>`</think></think>x"}),
              ElementsAre(tag("<think>"), thought("`"), tag("</think></think>"), text("x")));
  OutputOptions options = thinking();
  options.stops = {"k>"};
  EXPECT_THAT(run(machine(options), {"use `<think>` here"}), ElementsAre(text("use `<thin")));
}

TEST(Reasoning, StopsBindTheAnswerUnlessAsked) {
  OutputOptions options = thinking();
  options.stops = {"\n\n"};
  EXPECT_THAT(run(machine(options), {"<think>a\n\nb</think>c\n\nd"}),
              ElementsAre(tag("<think>"), thought("a\n\nb"), tag("</think>"), text("c")));
  options.stop_everywhere = true;
  EXPECT_THAT(run(machine(options), {"<think>a\n\nb</think>c"}), ElementsAre(tag("<think>"), thought("a")));
}

TEST(Markers, PayloadIsRawAndEndsAtItsOwnClose) {
  OutputOptions options = thinking();
  options.markers = {{"<tool_call>", "</tool_call>"}, {"[CALLS]", ""}};
  options.stops = {"stop"};
  EXPECT_THAT(run(machine(options), {"a<tool_", "call>\n{\"x\":\"<think>stop[CALLS]\"}</tool_call>\nb"}),
              ElementsAre(text("a"), tag("<tool_call>"), payload(0, "\n{\"x\":\"<think>stop[CALLS]\"}"),
                          tag("</tool_call>\n"), text("b")));
  EXPECT_THAT(run(machine(options), {"[CALLS] f <tool_call>"}),
              ElementsAre(tag("[CALLS]"), payload(1, " f <tool_call>")));
  EXPECT_THAT(run(machine(options), {"<think>[CALLS]</think>"}),
              ElementsAre(tag("<think>"), thought("[CALLS]"), tag("</think>")));
}

// What the stop rule says, without an automaton: the first position where a stop ends, the longest one there.
std::string text_before_stop(const std::string& input, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= input.size(); ++end) {
    size_t longest = 0;
    for (const std::string& s : stops)
      if (end >= s.size() && input.compare(end - s.size(), s.size(), s) == 0) longest = std::max(longest, s.size());
    if (longest > 0) return input.substr(0, end - longest);
  }
  return input;
}

std::string joined(const Events& events) {
  std::string all;
  for (const OutputEvent& event : events) all += event.text;
  return all;
}

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  size_t below(size_t n) { return engine_() % n; }
  std::string concat(const std::vector<std::string>& parts, size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out += parts[below(parts.size())];
    return out;
  }
  std::vector<std::string> chunks(const std::string& input) {
    std::vector<std::string> out;
    for (size_t i = 0; i < input.size(); i += out.back().size()) out.push_back(input.substr(i, 1 + below(6)));
    return out;
  }

 private:
  std::mt19937 engine_;
};

TEST(OutputMachineProperty, StopsAgreeWithPlainSearchForAnyChunking) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<std::string> stops(1 + random.below(4));
    for (std::string& s : stops) s = random.concat({"a", "b", "é", "🦔"}, 1 + random.below(5));
    const std::string input = random.concat({"a", "b", "é", "🦔", "\xF0\x9F", "\xA6", "\xFF"}, random.below(60));
    const Events events = run(machine({.stops = stops}), random.chunks(input));
    ASSERT_EQ(joined(events), replace_invalid_utf8(text_before_stop(input, stops)));
  }
}

TEST(OutputMachineProperty, AnyChunkingGivesTheSameEventsAndLosesNothing) {
  OutputOptions options = thinking();
  options.markers = {{"<tool>", "</tool>"}, {"<｜call｜>", "<｜end｜>"}};
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    options.starts_in_reasoning = random.below(2) == 1;
    const std::string input = random.concat({"<think>", "</think>", "<tool>", "</tool>", "<｜call｜>", "<｜end｜>", "`",
                                             "\n", "x", "<", "é", "</th", "\xE2\x82", "\xF0\x9F\xA6", "🦔"},
                                            random.below(40));
    const Events whole = run(machine(options), {input});
    ASSERT_EQ(run(machine(options), random.chunks(input)), whole);
    ASSERT_EQ(joined(whole), replace_invalid_utf8(input));
  }
}

TEST(OutputMachine, CopiesGoOnIndependently) {
  OutputMachine a = machine({.stops = {"xyz"}});
  a.push("x");
  OutputMachine b = a;
  EXPECT_THAT(b.push("yz"), IsEmpty());
  EXPECT_TRUE(b.stopped());
  EXPECT_THAT(a.finish(), ElementsAre(text("x")));
}

}  // namespace
}  // namespace tokamak
