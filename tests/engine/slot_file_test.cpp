#include "engine/slot_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "support/tiny_model.h"

namespace tokamak {
namespace {

namespace fs = std::filesystem;

class SlotFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tokamak-slots-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = folder_ / "a.slot";
    head_ = {.model = 77,
             .layout = "some layout",
             .adapter = "",
             .tenant = "someone",
             .page_size = 16,
             .page_bytes = 100,
             .state_floats = 5,
             .tokens = test::random_tokens(40, 1000, 1),
             .positions = {20, 40}};
    for (size_t i = 0; i < 3 * 100 + 2 * 5 * sizeof(float); ++i) body_.push_back(static_cast<std::byte>(i * 7));
  }
  void TearDown() override { fs::remove_all(folder_); }

  Result<uint64_t> write() const {
    SlotFileWriter writer = TRY(SlotFileWriter::create(path_, head_));
    const std::span<const std::byte> body(body_);
    TRY(writer.write(body.first(130)));
    TRY(writer.write(body.subspan(130)));
    return writer.commit();
  }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  // The message with which the file is refused; empty if it is not.
  std::string refusal() const {
    const auto reader = SlotFileReader::open(path_);
    if (reader) return "";
    EXPECT_EQ(reader.error().code, ErrorCode::bad_argument);
    return reader.error().message();
  }

  fs::path folder_, path_;
  SlotHead head_;
  std::vector<std::byte> body_;
};

TEST_F(SlotFileTest, ReadsWhatWasWritten) {
  const auto written = write();
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(*written, fs::file_size(path_));
  const auto reader = SlotFileReader::open(path_);
  ASSERT_TRUE(reader) << reader.error().message();
  EXPECT_EQ(reader->head().model, 77u);
  EXPECT_EQ(reader->head().layout, "some layout");
  EXPECT_EQ(reader->head().tenant, "someone");
  EXPECT_EQ(reader->head().tokens, head_.tokens);
  EXPECT_EQ(reader->head().positions, head_.positions);
  EXPECT_EQ(reader->n_bytes(), *written);
  std::vector<std::byte> pages(200);
  ASSERT_TRUE(reader->read_pages(1, pages));
  EXPECT_TRUE(std::equal(pages.begin(), pages.end(), body_.begin() + 100));
  std::vector<float> state(5);
  ASSERT_TRUE(reader->read_state(1, state));
  EXPECT_EQ(std::memcmp(state.data(), body_.data() + 300 + 20, 20), 0);
}

TEST_F(SlotFileTest, EveryChangedByteAndEveryLengthIsRefused) {
  ASSERT_TRUE(write());
  const std::string good = bytes();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    put(bad);
    EXPECT_NE(refusal(), "") << "byte " << i;
  }
  for (size_t n = 0; n < good.size(); n += 13) {
    put(good.substr(0, n));
    EXPECT_NE(refusal(), "") << n << " bytes";
  }
  put(good + "x");
  EXPECT_NE(refusal(), "");
  put(good);
  EXPECT_EQ(refusal(), "");
}

// Numbers that would make a trusting reader allocate or multiply beyond its means.
TEST_F(SlotFileTest, HugeCountsAreRefusedBeforeAnythingIsAllocated) {
  ASSERT_TRUE(write());
  const std::string good = bytes();
  for (size_t field = 1; field < 13; ++field)
    for (const uint64_t value : {uint64_t{0}, uint64_t{1} << 31, uint64_t{1} << 62, ~uint64_t{0}, ~uint64_t{0} / 16}) {
      std::string bad = good;
      bad.replace(field * 8, 8, reinterpret_cast<const char*>(&value), 8);
      if (bad == good) continue;
      put(bad);
      EXPECT_NE(refusal(), "") << "field " << field << " = " << value;
    }
  std::string newer = good;
  newer[6] = 2;
  put(newer);
  EXPECT_NE(refusal().find("version 2"), std::string::npos) << refusal();
}

TEST_F(SlotFileTest, OtherThingsThanFilesAreRefused) {
  EXPECT_EQ(SlotFileReader::open(path_).error().code, ErrorCode::not_found);
  fs::create_directory(path_);
  EXPECT_NE(refusal(), "");
  fs::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(refusal(), "") << "and it must not wait";
  fs::remove(path_);
  ASSERT_TRUE(write());
  fs::rename(path_, folder_ / "real.slot");
  fs::create_symlink("real.slot", path_);
  EXPECT_FALSE(SlotFileReader::open(path_)) << "links are not followed";
}

TEST_F(SlotFileTest, AnUnfinishedFileLeavesTheOldOne) {
  ASSERT_TRUE(write());
  const std::string before = bytes();
  {
    auto writer = SlotFileWriter::create(path_, head_);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(body_));
  }
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

}  // namespace
}  // namespace tokamak
