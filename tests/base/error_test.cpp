#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "base/result.h"
#include "base/utf8.h"

namespace tokamak {
namespace {

using testing::EndsWith, testing::HasSubstr;

TEST(ErrorMessage, Form) {
  EXPECT_EQ((Error{.what = "w", .where = "f.gguf", .hint = "h"}).message(), "f.gguf: w (h)");
  EXPECT_EQ((Error{.what = "w", .where = "f.gguf"}).message(), "f.gguf: w");
  EXPECT_EQ((Error{.what = "w", .hint = "h"}).message(), "w (h)");
  EXPECT_EQ((Error{.what = "w"}).message(), "w");
}

TEST(ErrorMessage, ForeignBytesCannotBreakTheLine) {
  const Error error{.what = "bad\nname\r\t\x1b[31m", .where = std::string("a\0b", 3), .hint = "\xFF\xC3\x7F"};
  EXPECT_EQ(error.message(), "a\\x00b: bad\\x0aname\\x0d\\x09\\x1b[31m (\\xff\\xc3\\x7f)");
}

TEST(ErrorMessage, C1ControlsAreEscapedAndOtherTextIsKept) {
  EXPECT_EQ((Error{.what = "\xC2\x9B"
                           "1m"})
                .message(),
            "\\xc2\\x9b1m");  // U+009B starts a terminal sequence
  EXPECT_EQ((Error{.what = "m\xC3\xB6"
                           "del \xE6\xA8\xA1"})
                .message(),
            "m\xC3\xB6"
            "del \xE6\xA8\xA1");
}

TEST(ErrorMessage, LongPartsAreCutBetweenCharacters) {
  std::string name;
  for (int i = 0; i < 1000; ++i) name += "\xE2\x82\xAC";
  const std::string message = Error{.what = "what", .where = name, .hint = std::string(5000, '\n')}.message();
  EXPECT_LE(message.size(), 1000u);
  EXPECT_TRUE(is_valid_utf8(message));
  EXPECT_THAT(message, HasSubstr("...: what ("));
}

TEST(ErrorTable, NamesAndStatuses) {
  std::set<std::string_view> names;
  for (const ErrorRow& row : kErrors) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    for (char c : row.name) EXPECT_TRUE(std::islower(static_cast<unsigned char>(c)) || c == '_') << row.name;
    EXPECT_THAT(std::string(row.meaning), EndsWith(".")) << row.name;
    EXPECT_GE(row.exit_status, 2) << row.name;  // 0 is success, 1 a failed check
    EXPECT_LE(row.exit_status, 130) << row.name;
    EXPECT_GE(row.http_status, 400) << row.name;
    EXPECT_LT(row.http_status, 600) << row.name;
    EXPECT_EQ(&error_row(row.code), &row);
  }
}

Result<int> half_of(int n) {
  if (n % 2) return Error{.code = ErrorCode::bad_argument, .what = "odd", .where = std::to_string(n)};
  return n / 2;
}
Result<void> require_quarter(int n, int& out) {
  const int half = TRY(half_of(n));
  out = TRY(half_of(half));
  return {};
}

TEST(Result, TryPassesValuesAndErrorsOn) {
  int out = 0;
  EXPECT_TRUE(require_quarter(12, out));
  EXPECT_EQ(out, 3);
  const auto failed = require_quarter(6, out);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::bad_argument);
  EXPECT_EQ(failed.error().where, "3");
  EXPECT_EQ(out, 3);
}

}  // namespace
}  // namespace tokamak
