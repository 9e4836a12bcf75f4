#include "gguf/writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "gguf/gguf.h"
#include "gguf/raw_gguf_helpers.h"

namespace tokamak {
namespace {

using testing::TemporaryFolder;

using Bytes = std::vector<std::byte>;

Bytes counting(size_t n) {
  Bytes out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i % 251 + 1);
  return out;
}

void expect_equal_entries(const GgufFile& a, const GgufFile& b) {
  ASSERT_EQ(a.values().size(), b.values().size());
  for (size_t i = 0; i < a.values().size(); ++i) {
    EXPECT_EQ(a.values()[i].key(), b.values()[i].key());
    EXPECT_EQ(a.values()[i].type_name(), b.values()[i].type_name());
    EXPECT_TRUE(std::ranges::equal(a.values()[i].raw(), b.values()[i].raw())) << a.values()[i].key();
  }
}

std::string refusal(const GgufWriter& writer) {
  const auto bytes = writer.to_bytes();
  return bytes ? "ok" : bytes.error().message();
}

TEST(GgufWriter, BytesAreTheFormatsOwn) {
  GgufWriter writer;
  writer.add("k", uint16_t{513});
  const std::vector<std::string> words = {"a"};
  writer.add_array("w", std::span<const std::string>(words));
  const Bytes data = counting(12);
  writer.add_tensor("t", DType::f32, {1, 3}, data);
  testing::RawGguf expected = testing::RawGguf::header(1, 2);
  expected.entry("k", GgufType::u16, uint16_t{513});
  expected.string("w").type(GgufType::array).type(GgufType::string).number(uint64_t{1}).string("a");
  expected.tensor("t", {3, 1}, 0, 0).pad();
  for (const std::byte b : data) expected.number(b);
  expected.pad();
  EXPECT_EQ(*writer.to_bytes(), expected.bytes());
}

TEST(GgufWriter, EveryValueTypeReadsBackAndCopies) {
  GgufWriter writer;
  writer.add("u8", uint8_t{200});
  writer.add("i8", int8_t{-100});
  writer.add("u16", uint16_t{60000});
  writer.add("i16", int16_t{-30000});
  writer.add("u32", uint32_t{4000000000});
  writer.add("i32", int32_t{-2000000000});
  writer.add("u64", uint64_t{1} << 63);
  writer.add("i64", INT64_MIN);
  writer.add("f32", 0.1f);
  writer.add("f64", 0.1);
  writer.add("bool", true);
  writer.add("string", std::string_view("a\0b", 3));
  const std::string_view words[] = {"", "x"};
  writer.add_array("strings", std::span<const std::string_view>(words));
  const double numbers[] = {1, -2};
  writer.add_array("f64s", std::span<const double>(numbers));
  const bool bools[] = {true, false};
  writer.add_array("bools", std::span<const bool>(bools));
  for (const uint32_t version : {2u, 3u}) {
    const Bytes bytes = *writer.to_bytes({.version = version});
    const auto file = GgufFile::parse(bytes);
    ASSERT_TRUE(file.has_value()) << file.error().message();
    EXPECT_EQ(file->version(), version);
    for (size_t i = 0; i < 12; ++i) EXPECT_EQ(file->values()[i].type_name(), file->values()[i].key());
    EXPECT_EQ(*file->get_u64("u64"), uint64_t{1} << 63);
    EXPECT_EQ(*file->get_i64("i64"), INT64_MIN);
    EXPECT_EQ(*file->get_f64("f64"), 0.1);
    EXPECT_EQ(*file->get_f64("f32"), double{0.1f});
    EXPECT_EQ(*file->get_string("string"), std::string_view("a\0b", 3));
    EXPECT_EQ((*file->get_strings("strings"))[1], "x");
    GgufWriter copy;
    for (const GgufValue& value : file->values()) copy.add(value);
    const Bytes copied = *copy.to_bytes({.version = version});
    EXPECT_EQ(copied, bytes);
    expect_equal_entries(*GgufFile::parse(copied), *file);
  }
}

TEST(GgufWriter, EveryTensorTypeReadsBackAtEveryAlignment) {
  for (const uint32_t alignment : {8u, 32u, 4096u}) {
    GgufWriter writer;
    writer.add("general.alignment", alignment);
    std::vector<Bytes> data;
    for (const DTypeRow& row : kDTypes) data.push_back(counting(row.block_bytes * 6u));
    for (size_t i = 0; i < kDTypes.size(); ++i)
      writer.add_tensor(kDTypes[i].name, kDTypes[i].id, {3, 2 * kDTypes[i].block_elems}, data[i]);
    TemporaryFolder folder;
    ASSERT_TRUE(writer.write(folder / "t.gguf").has_value());
    const auto file = GgufFile::open(folder / "t.gguf");
    ASSERT_TRUE(file.has_value()) << file.error().message();
    EXPECT_EQ(testing::read_file(folder / "t.gguf"), *writer.to_bytes());
    for (size_t i = 0; i < kDTypes.size(); ++i) {
      const GgufTensor& tensor = file->tensors()[i];
      EXPECT_EQ(tensor.type, kDTypes[i].id);
      EXPECT_EQ(tensor.shape, (Shape{3, 2 * kDTypes[i].block_elems}));
      EXPECT_EQ(tensor.offset % alignment, 0u);
      EXPECT_TRUE(std::ranges::equal(tensor.data, data[i])) << tensor.name;
    }
  }
}

TEST(GgufWriter, StreamsInPiecesAndReportsProgress) {
  const Bytes data = counting(3 << 20);
  GgufWriter writer;
  writer.add_tensor("w", DType::i8, {3, 1 << 20}, [&](const GgufWriter::Sink& sink) -> Result<void> {
    for (size_t i = 0; i < data.size(); i += 100000)
      TRY(sink(std::span(data).subspan(i, std::min<size_t>(100000, data.size() - i))));
    return {};
  });
  writer.add_tensor("v", DType::i8, {1}, std::span(data).first(1));
  TemporaryFolder folder;
  std::vector<double> fractions;
  ASSERT_TRUE(writer
                  .write(folder / "t", {.progress =
                                            [&](double f) {
                                              fractions.push_back(f);
                                              return true;
                                            }})
                  .has_value());
  EXPECT_EQ(fractions, (std::vector<double>{0.5, 1}));
  const auto file = GgufFile::open(folder / "t");
  EXPECT_TRUE(std::ranges::equal(file->find_tensor("w")->data, data));
}

TEST(GgufWriter, MistakesAreKeptUntilWriting) {
  const auto with = [](auto declare) {
    GgufWriter writer;
    declare(writer);
    writer.add("later", 1);
    return refusal(writer);
  };
  const auto tensor = [&](std::string_view name, DType type, Shape shape) {
    return with([&](GgufWriter& w) { w.add_tensor(name, type, shape, std::span<const std::byte>()); });
  };
  EXPECT_EQ(with([](GgufWriter& w) { w.add("", 1); }), "key \"\": the name is empty");
  EXPECT_EQ(with([](GgufWriter& w) { w.add("a\xff", 1); }), "key \"a\\xff\": the name is not valid UTF-8");
  EXPECT_EQ(with([](GgufWriter& w) { w.add(std::string_view("\0", 1), 1); }),
            "key \"\\x00\": the name holds a NUL byte");
  EXPECT_EQ(with([](GgufWriter& w) { w.add(std::string(65535, 'k'), 1); }),
            "key \"" + std::string(80, 'k') + "...\": the name has 65535 bytes, allowed are at most 65534");
  EXPECT_EQ(with([](GgufWriter& w) { w.add("later", 2.0); }), "key \"later\": the key was added twice");
  EXPECT_EQ(with([](GgufWriter& w) { w.add("general.alignment", 32); }),
            "key \"general.alignment\": must be a u32 and a power of two from 8 to 16777216");
  EXPECT_EQ(with([](GgufWriter& w) { w.add("general.alignment", 48u); }),
            "key \"general.alignment\": must be a u32 and a power of two from 8 to 16777216");
  EXPECT_EQ(tensor("", DType::f32, {1}), "tensor \"\": the name is empty");
  EXPECT_EQ(tensor("w", DType::f32, {1, 0}), "tensor \"w\": shape [1, 0] is not possible");
  EXPECT_EQ(tensor("w", DType::f32, {1 << 30, 1 << 30, 1 << 30}),
            "tensor \"w\": shape [1073741824, 1073741824, 1073741824] is not possible");
  EXPECT_EQ(tensor("w", DType::q4_0, {2, 33}),
            "tensor \"w\": shape [2, 33]: the last dimension must be a multiple of 32 for type Q4_0");
  EXPECT_EQ(tensor("w", DType::f32, {1}),
            "tensor \"w\": its source delivers less than the 4 bytes of type F32 and shape [1]");
  const Bytes data(8);
  EXPECT_EQ(with([&](GgufWriter& w) { w.add_tensor("w", DType::f32, {1}, data); }),
            "tensor \"w\": its source delivers more than the 4 bytes of type F32 and shape [1]");
  EXPECT_EQ(with([&](GgufWriter& w) {
              w.add_tensor("w", DType::f32, {2}, data);
              w.add_tensor("w", DType::f64, {1}, data);
            }),
            "tensor \"w\": the tensor was added twice");
  EXPECT_EQ(GgufWriter().to_bytes({.version = 1}).error().message(), "GGUF version 1 cannot be written (use 2 or 3)");
}

// Whatever fails, and whenever: the old file stays as it was and nothing lies beside it.
class GgufWriterFailure : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_file(folder_ / "t", old_); }
  void expect_untouched() {
    EXPECT_EQ(folder_.n_files(), 1u);
    EXPECT_EQ(testing::read_file(folder_ / "t"), old_);
  }
  TemporaryFolder folder_;
  Bytes old_ = counting(10);
};

TEST_F(GgufWriterFailure, OfASourceLeavesNothing) {
  GgufWriter writer;
  writer.add_tensor("w", DType::i8, {4 << 20}, [](const GgufWriter::Sink& sink) -> Result<void> {
    TRY(sink(counting(2 << 20)));
    return Error{.code = ErrorCode::cancelled, .what = "stopped"};
  });
  EXPECT_EQ(writer.write(folder_ / "t").error().code, ErrorCode::cancelled);
  expect_untouched();
}

TEST_F(GgufWriterFailure, ProgressMayStopIt) {
  const Bytes data(8);
  GgufWriter writer;
  writer.add_tensor("v", DType::i8, {8}, data);
  writer.add_tensor("w", DType::i8, {8}, [](const GgufWriter::Sink&) -> Result<void> {
    ADD_FAILURE() << "the next tensor was asked for";
    return {};
  });
  const auto written = writer.write(folder_ / "t", {.progress = [](double) { return false; }});
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::cancelled);
  expect_untouched();
}

TEST_F(GgufWriterFailure, OfTheDiskIsNoSpace) {
  GgufWriter writer;
  const Bytes data(4 << 20);
  writer.add_tensor("w", DType::i8, {4 << 20}, data);
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1 << 20, old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto written = writer.write(folder_ / "t");
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::no_space);
  EXPECT_EQ(written.error().message(),
            (folder_ / "t").string() +
                ": no space left to write the file (free some space or choose another disk; nothing was changed)");
  expect_untouched();
}

TEST_F(GgufWriterFailure, OfThePathIsNamed) {
  const auto written = GgufWriter().write(folder_ / "none/t");
  EXPECT_EQ(written.error().code, ErrorCode::not_found);
  std::filesystem::create_directory(folder_ / "d");
  const auto onto_folder = GgufWriter().write(folder_ / "d");
  EXPECT_EQ(onto_folder.error().code, ErrorCode::bad_argument);
  EXPECT_NE(onto_folder.error().message().find("is a folder"), std::string::npos);
  EXPECT_EQ(GgufWriter().write("/dev/null").error().code, ErrorCode::bad_argument);
  std::filesystem::remove(folder_ / "d");
  expect_untouched();
}

TEST_F(GgufWriterFailure, NoneReplacesTheOldFile) {
  ASSERT_TRUE(GgufWriter().write(folder_ / "t").has_value());
  EXPECT_EQ(folder_.n_files(), 1u);
  EXPECT_EQ(testing::read_file(folder_ / "t"), *GgufWriter().to_bytes());
}

TEST(GgufWriterTest, ALinkStaysALinkAndAPrivateFileStaysPrivate) {
  const auto folder = std::filesystem::temp_directory_path() / ("tokamak-link-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto real = folder / "real.gguf", link = folder / "link.gguf";
  std::ofstream(real) << "old";
  std::filesystem::permissions(real, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::create_symlink("real.gguf", link);
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  const auto written = writer.write(link);
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(GgufFile::open(real));
  EXPECT_EQ(std::filesystem::status(real).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tokamak
