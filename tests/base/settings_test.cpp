#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tokamak {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Source = SettingValues::Source;
using Words = std::vector<std::string_view>;

std::string error_of(std::string_view flag, std::string_view text) {
  const auto value = parse_setting(*find_setting(flag), text, flag);
  return value ? "no error" : value.error().message();
}

TEST(Settings, EveryRowHasAParsableDefaultAndAName) {
  const SettingValues values;  // CHECKs every default
  for (const Setting& s : settings()) {
    EXPECT_EQ(find_setting(s.flag), &s);
    EXPECT_FALSE(values.is_set(s.flag));
    EXPECT_FALSE(s.help.empty()) << s.flag;
    EXPECT_THAT(settings_markdown(), HasSubstr(std::string("`").append(s.flag).append("`")));
    EXPECT_EQ(find_setting_by_json(s.json), s.json.empty() ? nullptr : &s);
  }
}

TEST(Settings, NamesDependOnTheCommand) {
  EXPECT_EQ(find_setting("-n", kScopeRun)->flag, "--n-predict");
  EXPECT_EQ(find_setting("-n", kScopeBench)->flag, "--n-gen");
  EXPECT_EQ(find_setting("--temperature", kScopeRun)->flag, "--temp");
  EXPECT_EQ(find_setting("--temp", kScopeInspect), nullptr);
  EXPECT_EQ(find_setting("", kScopeAll), nullptr);
  EXPECT_EQ(find_setting_by_json(""), nullptr);
  EXPECT_EQ(environment_name(*find_setting("--ctx-size")), "TOKAMAK_CTX_SIZE");
}

TEST(Settings, ErrorsNameFlagValueAndRange) {
  EXPECT_EQ(error_of("--temp", "abc"), "--temp: 'abc' is not a number (a number from 0 to 100, default 0.8)");
  EXPECT_EQ(error_of("--temp", "1e6"), "--temp: '1e6' is out of range (a number from 0 to 100, default 0.8)");
  EXPECT_EQ(error_of("--top-k", "1.5"),
            "--top-k: '1.5' is not a whole number (a whole number from -1 to 2147483647, default 40)");
  EXPECT_EQ(
      error_of("--isa", "avx21"),
      "--isa: 'avx21' is not a choice, did you mean avx2? (one of auto, scalar, avx2, avx512, neon, default auto)");
  EXPECT_EQ(error_of("--raw", "maybe"), "--raw: 'maybe' is neither on nor off (on or off, default off)");
}

TEST(Settings, NumbersAtTheEdges) {
  for (std::string_view bad : {"", " 1", "1 ", "-1", "nan", "NaN", "inf", "-inf", "1e999", "0x1", "+-1", "+", "1,5"})
    EXPECT_NE(error_of("--temp", bad), "no error") << bad;
  for (std::string_view good : {"0", "100", "+0.5", "1e-9", ".5"}) EXPECT_EQ(error_of("--temp", good), "no error");
  for (std::string_view bad : {"2147483648", "-2", "99999999999999999999", "1e3"})
    EXPECT_NE(error_of("--top-k", bad), "no error") << bad;
  EXPECT_EQ(error_of("--seed", "9007199254740991"), "no error");
  EXPECT_TRUE(check_setting_range(*find_setting("--temp"), 100.0, "temperature").has_value());
  EXPECT_EQ(check_setting_range(*find_setting("--temp"), std::nan(""), "temperature").error().message(),
            "temperature: nan is out of range (a number from 0 to 100, default 0.8)");
}

TEST(SettingValues, FlagBeatsEnvironmentBeatsDefault) {
  SettingValues values;
  EXPECT_EQ(values.number("--temp"), 0.8);
  const auto environment = [](const char* name) -> const char* {
    return std::string_view(name) == "TOKAMAK_TEMP" ? "0.3" : std::string_view(name) == "TOKAMAK_STOP" ? "X" : nullptr;
  };
  ASSERT_TRUE(values.read_environment(kScopeRun, environment).has_value());
  EXPECT_EQ(values.number("--temp"), 0.3);
  EXPECT_EQ(values.source("--temp"), Source::environment);
  ASSERT_TRUE(values.read_arguments(kScopeRun, Words{"--temp", "0.5", "--stop", "A", "--stop=B\\n"}).has_value());
  EXPECT_EQ(values.number("--temp"), 0.5);
  EXPECT_THAT(values.list("--stop"), ElementsAre("A", "B\n"));
  ASSERT_TRUE(values.set(*find_setting("--temp"), "0.9", Source::environment, "TOKAMAK_TEMP").has_value());
  EXPECT_EQ(values.number("--temp"), 0.5);

  const auto bad = [](const char*) -> const char* { return "x"; };
  EXPECT_THAT(SettingValues().read_environment(kScopeBench, bad).error().message(), HasSubstr("TOKAMAK_THREADS: 'x'"));
}

TEST(SettingValues, ErrorsNameWhatWasGiven) {
  SettingValues values;
  ASSERT_TRUE(values.set(*find_setting("--page-size"), "17", Source::environment, "TOKAMAK_PAGE_SIZE").has_value());
  ASSERT_TRUE(values.set(*find_setting("--batch"), "3", Source::flag, "--batch").has_value());
  const auto where = [&](std::string text) { return values.in_given_names({.where = std::move(text)}).where; };
  EXPECT_EQ(where("page size (--page-size)"), "page size (TOKAMAK_PAGE_SIZE)");
  EXPECT_EQ(where("--page-size"), "TOKAMAK_PAGE_SIZE");
  EXPECT_EQ(where("--page-sizes"), "--page-sizes") << "another word";
  EXPECT_EQ(where("--batch"), "--batch");
  EXPECT_EQ(where("--threads"), "--threads") << "nobody has set it";
}

TEST(SettingValues, ReadsArguments) {
  SettingValues values;
  const Words words = {"model.gguf", "-p",   "--odd prompt", "-n",           "-1", "--json",
                       "--no-chat",  "-sys", "be brief",     "--isa=scalar", "--", "-t"};
  const auto others = values.read_arguments(kScopeRun, words);
  ASSERT_TRUE(others.has_value()) << others.error().message();
  EXPECT_THAT(*others, ElementsAre("model.gguf", "-t"));
  EXPECT_EQ(values.text("--prompt"), "--odd prompt");
  EXPECT_EQ(values.text("--system"), "be brief");
  EXPECT_EQ(values.text("--isa"), "scalar");
  EXPECT_EQ(values.integer("--n-predict"), -1);
  EXPECT_TRUE(values.flag("--json"));
  EXPECT_TRUE(values.flag("--raw"));
  EXPECT_FALSE(values.flag("--verbose"));
  EXPECT_THAT(values.list("--dry-sequence-breaker"), ElementsAre("\n", ":", "\"", "*"));
  EXPECT_THAT(values.list("--stop"), IsEmpty());
}

TEST(SettingValues, RefusesUnknownFlagsAndMissingValues) {
  const auto message = [](Words words) { return SettingValues().read_arguments(kScopeRun, words).error().message(); };
  EXPECT_EQ(message({"--tmep", "1"}), "--tmep: unknown flag (did you mean --temp?)");
  EXPECT_EQ(message({"--qqqqqqqq"}), "--qqqqqqqq: unknown flag (--help lists the flags)");
  EXPECT_EQ(message({"--temp"}), "--temp: a value must follow (a number from 0 to 100, default 0.8)");
  EXPECT_EQ(message({"-p=x"}), "-p=x: unknown flag (--help lists the flags)");
  EXPECT_THAT(message({"--repetitions", "3"}), HasSubstr("has no such flag (it belongs to: bench, explain"));
}

TEST(Settings, HelpFitsAScreenAndGrowsOnRequest) {
  for (const ScopeRow& row : scopes()) {
    const std::string help = settings_help(row.scope, false);
    EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 40) << row.command;
    EXPECT_THAT(help, HasSubstr("--verbose"));
  }
  EXPECT_THAT(settings_help(kScopeRun, false), HasSubstr("  -n, --n-predict N           Most tokens"));
  EXPECT_THAT(settings_help(kScopeRun, false), testing::Not(HasSubstr("--mirostat")));
  EXPECT_THAT(settings_help(kScopeRun, true), HasSubstr("--mirostat"));
}

TEST(NearestName, CountsEditsAndGivesUp) {
  const std::vector<std::string_view> names = {"--temp", "--top-k", "--top-p", "--threads"};
  EXPECT_EQ(nearest_name("--tmep", names), "--temp");
  EXPECT_EQ(nearest_name("--topk", names), "--top-k");
  EXPECT_EQ(nearest_name("--thread", names), "--threads");
  EXPECT_EQ(nearest_name("--banana", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'x'), names), "");
}

}  // namespace
}  // namespace tokamak
