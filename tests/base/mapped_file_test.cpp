#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace tokamak {
namespace {

using testing::HasSubstr;

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() {
    folder_ = std::filesystem::temp_directory_path() / ("tokamak_mapped_" + std::to_string(getpid()) + "_" +
                                                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  ~MappedFileTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(std::string_view name, std::string_view content) {
    const auto path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static std::string_view text(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }

  std::filesystem::path folder_;
};

TEST_F(MappedFileTest, ShowsTheBytes) {
  const auto file = MappedFile::open(write("a", "hello"));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(text(*file), "hello");
}

TEST_F(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  const auto file = MappedFile::open(write("empty", ""));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_TRUE(file->bytes().empty());
  file->forget(file->bytes());
}

TEST_F(MappedFileTest, MissingFile) {
  for (const auto& path : {folder_ / "none.gguf", write("plain", "x") / "inside"}) {
    const auto file = MappedFile::open(path);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::not_found);
    EXPECT_THAT(file.error().message(), HasSubstr(path.string()));
    EXPECT_FALSE(file.error().hint.empty());
  }
}

TEST_F(MappedFileTest, AFolderIsNotAFile) {
  const auto file = MappedFile::open(folder_);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::bad_argument);
  EXPECT_THAT(file.error().message(), HasSubstr("folder"));
}

TEST_F(MappedFileTest, NoPermission) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const auto path = write("secret", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const auto file = MappedFile::open(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::io_failed);
}

TEST_F(MappedFileTest, MovesAndOutlivesTheFile) {
  const auto path = write("a", "hello");
  MappedFile first = *MappedFile::open(path);
  std::filesystem::remove(path);
  MappedFile second = std::move(first);
  EXPECT_EQ(text(second), "hello");
  EXPECT_TRUE(first.bytes().empty());
  MappedFile third;
  third = std::move(second);
  EXPECT_EQ(text(third), "hello");
}

TEST_F(MappedFileTest, ForgottenPagesReadTheSame) {
  const std::string content(100'000, 'q');
  const MappedFile file = *MappedFile::open(write("big", content));
  file.forget(file.bytes());
  file.forget(file.bytes().subspan(1, 50'000));
  file.forget(file.bytes().subspan(0, 0));
  const std::byte outside{};
  file.forget({&outside, 1});
  EXPECT_EQ(text(file), content);
}

}  // namespace
}  // namespace tokamak
