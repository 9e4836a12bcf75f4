#include "gguf/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gguf/raw_gguf_helpers.h"
#include "gguf/writer.h"

namespace tokamak {
namespace {

using ::testing::ElementsAre;
using testing::RawGguf;
using testing::TemporaryFolder;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A file of one key "k", and its bytes.
struct OneKey {
  std::vector<std::byte> bytes;
  Result<GgufFile> file;
  template <class T>
  explicit OneKey(T value) : OneKey([&](GgufWriter& writer) { writer.add("k", value); }, 0) {}
  template <class Add>
  OneKey(Add add, int) : bytes(make(add)), file(GgufFile::parse(bytes, "f")) {}
  template <class Add>
  static std::vector<std::byte> make(Add add) {
    GgufWriter writer;
    add(writer);
    return *writer.to_bytes();
  }
  const GgufFile* operator->() const { return &*file; }
};

template <class T>
OneKey array_key(std::vector<T> values) {
  return OneKey([&](GgufWriter& writer) { writer.add_array("k", std::span<const T>(values)); }, 0);
}

template <class T>
std::string message(const Result<T>& result) {
  return result ? "ok" : result.error().message();
}

template <class T>
class GgufIntegers : public ::testing::Test {};
using IntegerTypes = ::testing::Types<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>;
TYPED_TEST_SUITE(GgufIntegers, IntegerTypes);

TYPED_TEST(GgufIntegers, EveryTypeIsAcceptedWhenTheValueFits) {
  using T = TypeParam;
  const OneKey seven(T{7});
  EXPECT_EQ(*seven->get_u64("k"), 7u);
  EXPECT_EQ(*seven->get_i64("k"), 7);
  EXPECT_EQ(*seven->get_f64("k"), 7.0);
  EXPECT_THAT(*seven->get_ints("k"), ElementsAre(7));
  EXPECT_THAT(*seven->get_floats("k"), ElementsAre(7.0f));
  EXPECT_EQ(message(seven->get_u64("k", 8)), "f: key \"k\", byte 33: is 7, must be at least 8");
  EXPECT_EQ(message(seven->get_u64("k", 0, 6)), "f: key \"k\", byte 33: is 7, must be from 0 to 6");
  EXPECT_EQ(message(seven->get_i64("k", -1, 6)), "f: key \"k\", byte 33: is 7, must be from -1 to 6");
  EXPECT_EQ(message(seven->get_f64("k", 7.5)), "f: key \"k\", byte 33: is 7, must be at least 7.5");
  const std::string wrong = message(seven->get_bool("k"));
  EXPECT_NE(wrong.find("must be bool"), wrong.npos) << wrong;

  const T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  const OneKey lowest(low), highest(high);
  EXPECT_EQ(*highest->get_u64("k"), static_cast<uint64_t>(high));
  EXPECT_EQ(*lowest->get_i64("k"), static_cast<int64_t>(low));
  EXPECT_EQ(lowest->get_u64("k").has_value(), low == 0);
  EXPECT_EQ(highest->get_i64("k").has_value(), static_cast<uint64_t>(high) <= uint64_t{INT64_MAX});
  EXPECT_EQ(highest->get_ints("k").has_value(), highest->get_i64("k").has_value());
  EXPECT_EQ(highest->get_f64("k").has_value(), sizeof(T) < 8);
}

TEST(GgufValues, NegativeWhereUnsignedIsWantedNamesTheKey) {
  EXPECT_EQ(message(OneKey(int8_t{-3})->get_u64("k")), "f: key \"k\", byte 33: is -3, must be at least 0");
  EXPECT_EQ(message(OneKey(int64_t{-3})->get_u64("k", 1, 9)), "f: key \"k\", byte 33: is -3, must be from 1 to 9");
}

TEST(GgufValues, FloatsMustBeFinite) {
  EXPECT_EQ(*OneKey(0.5f)->get_f64("k"), 0.5);
  EXPECT_EQ(*OneKey(-1e300)->get_f64("k"), -1e300);
  EXPECT_EQ(message(OneKey(static_cast<float>(kInfinity))->get_f64("k")),
            "f: key \"k\", byte 33: is inf, must be a finite number");
  EXPECT_EQ(message(OneKey(std::nan(""))->get_f64("k")), "f: key \"k\", byte 33: is nan, must be a finite number");
  EXPECT_EQ(message(OneKey(2.0)->get_f64("k", 0, 1)), "f: key \"k\", byte 33: is 2, must be from 0 to 1");
  EXPECT_EQ(message(OneKey(1.0f)->get_u64("k")), "f: key \"k\", byte 33: has type f32, must be an integer");
}

TEST(GgufValues, BoolsAndStrings) {
  EXPECT_TRUE(*OneKey(true)->get_bool("k"));
  EXPECT_FALSE(*OneKey(false)->get_bool("k"));
  EXPECT_EQ(message(OneKey(true)->get_u64("k")), "f: key \"k\", byte 33: has type bool, must be an integer");
  EXPECT_EQ(message(OneKey(true)->get_floats("k")),
            "f: key \"k\", byte 33: has type bool, must be a number or an array of numbers");
  EXPECT_EQ(*OneKey("text")->get_string("k"), "text");
  EXPECT_EQ(*OneKey("")->get_string("k"), "");
  EXPECT_THAT(*OneKey("one")->get_strings("k"), ElementsAre("one"));
  EXPECT_EQ(message(OneKey("text")->get_f64("k")), "f: key \"k\", byte 33: has type string, must be a number");
  EXPECT_EQ(message(OneKey("text")->get_ints("k")),
            "f: key \"k\", byte 33: has type string, must be an integer or an array of integers");
  EXPECT_EQ(message(OneKey(1u)->get_string("k")), "f: key \"k\", byte 33: has type u32, must be string");
  EXPECT_EQ(message(OneKey(1u)->get_strings("k")),
            "f: key \"k\", byte 33: has type u32, must be a string or an array of strings");
}

TEST(GgufValues, Arrays) {
  const OneKey ints = array_key<int16_t>({-1, 2, 3});
  EXPECT_THAT(*ints->get_ints("k"), ElementsAre(-1, 2, 3));
  EXPECT_THAT(*ints->get_floats("k"), ElementsAre(-1.0f, 2.0f, 3.0f));
  EXPECT_EQ(message(ints->get_u64("k")), "f: key \"k\", byte 33: has type array of i16, must be an integer");
  EXPECT_EQ(message(ints->get_f64("k")), "f: key \"k\", byte 33: has type array of i16, must be a number");
  EXPECT_THAT(*array_key<double>({0.25, -kInfinity})->get_floats("k"), ElementsAre(0.25f, -INFINITY));
  EXPECT_THAT(*array_key<std::string>({"a", "", "b c"})->get_strings("k"), ElementsAre("a", "", "b c"));
  EXPECT_TRUE(array_key<float>({})->get_floats("k")->empty());
  EXPECT_EQ(message(array_key<float>({})->get_ints("k")),
            "f: key \"k\", byte 33: has type array of f32, must be an integer or an array of integers");
  EXPECT_EQ(message(array_key<uint64_t>({1, uint64_t{1} << 63})->get_ints("k")),
            "f: key \"k\", byte 33: is 9223372036854775808 at index 1, must be less than 2^63");
  const bool pattern[] = {true, false};
  const OneKey bools([&](GgufWriter& writer) { writer.add_array("k", std::span<const bool>(pattern)); }, 0);
  EXPECT_THAT(*bools->get_ints("k"), ElementsAre(1, 0));
}

TEST(GgufValues, MissingKeysFailOrFallBack) {
  const OneKey file(1u);
  EXPECT_EQ(message(file->get_u64("x")),
            "f: key \"x\": the key is missing (the file is incomplete or not of this kind of model)");
  EXPECT_FALSE(file->architecture().has_value());
  EXPECT_EQ(file->find("x"), nullptr);
  EXPECT_TRUE(file->has("k"));
  EXPECT_EQ(*file->get_u64_or("x", 5), 5u);
  EXPECT_EQ(*file->get_u64_or("k", 5), 1u);
  EXPECT_EQ(*file->get_i64_or("x", -5), -5);
  EXPECT_EQ(*file->get_f64_or("x", 0.5), 0.5);
  EXPECT_EQ(*file->get_bool_or("x", true), true);
  EXPECT_EQ(*file->get_string_or("x", "d"), "d");
  EXPECT_THAT(*file->get_ints_or("x", {1, 2}), ElementsAre(1, 2));
  EXPECT_THAT(*file->get_floats_or("x", {1.5f}), ElementsAre(1.5f));
  EXPECT_THAT(*file->get_strings_or("x", {"s"}), ElementsAre("s"));
  EXPECT_FALSE(file->get_bool_or("k", true).has_value());  // a wrong type is no missing key
  EXPECT_FALSE(file->get_u64_or("k", 5, 2).has_value());   // nor is a wrong range
}

TEST(GgufValues, DisplayIsShort) {
  EXPECT_EQ(OneKey(-7)->values()[0].to_display(), "-7");
  EXPECT_EQ(OneKey(true)->values()[0].to_display(), "true");
  EXPECT_EQ(OneKey(0.5f)->values()[0].to_display(), "0.5");
  EXPECT_EQ(OneKey("h\xc3\xa9llo")->values()[0].to_display(8, 2), "\"h...\"");  // no half character
  EXPECT_EQ(array_key<uint8_t>({1, 2, 3})->values()[0].to_display(2), "[1, 2, ...]");
  EXPECT_EQ(array_key<std::string>({"a", "b"})->values()[0].to_display(), "[\"a\", \"b\"]");
  EXPECT_EQ(array_key<uint8_t>({1})->values()[0].type_name(), "array of u8");
}

TEST(GgufFile, OpensFromDiskAndSurvivesMoving) {
  TemporaryFolder folder;
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("z", 1u);
  const std::vector<std::byte> data(1 << 16, std::byte{7});
  writer.add_tensor("w", DType::i8, {1 << 16}, data);
  ASSERT_TRUE(writer.write(folder / "m.gguf").has_value());
  std::vector<double> fractions;
  auto opened = GgufFile::open(folder / "m.gguf", {.progress = [&](double f) { fractions.push_back(f); }});
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  const GgufFile file = std::move(*opened);
  EXPECT_EQ(*file.architecture(), "llama");
  EXPECT_EQ(file.values()[0].key(), "general.architecture");
  EXPECT_EQ(file.values()[1].key(), "z");
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.alignment(), 32u);
  EXPECT_EQ(file.n_parts(), 1u);
  EXPECT_EQ(file.n_bytes(), std::filesystem::file_size(folder / "m.gguf"));
  EXPECT_EQ(file.find_tensor("v"), nullptr);
  const GgufTensor* tensor = file.find_tensor("w");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->data[12345], std::byte{7});
  file.forget(*tensor);
  EXPECT_EQ(tensor->data[12345], std::byte{7});
  EXPECT_EQ(fractions.front(), 0);
  EXPECT_EQ(fractions.back(), 1);
}

TEST(GgufFile, BadPathsAreOneLine) {
  TemporaryFolder folder;
  EXPECT_EQ(GgufFile::open(folder / "none.gguf").error().code, ErrorCode::not_found);
  EXPECT_EQ(GgufFile::open(folder / "").error().code, ErrorCode::bad_argument);
  testing::write_file(folder / "bad", RawGguf().text("GGUF").bytes());
  const std::string text = message(GgufFile::open(folder / "bad"));
  EXPECT_NE(text.find((folder / "bad").string() + ": byte 4: the file ends"), text.npos) << text;
}

}  // namespace
}  // namespace tokamak
