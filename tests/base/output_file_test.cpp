#include "base/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace tokamak {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() {
    folder_ = fs::temp_directory_path() / ("tokamak_output_" + std::to_string(getpid()) + "_" +
                                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  static Result<void> save(const fs::path& path, std::string_view text) {
    OutputFile file = TRY(OutputFile::create(path));
    TRY(file.write(std::as_bytes(std::span(text))));
    return file.commit();
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  size_t n_files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  fs::path folder_;
};

TEST_F(OutputFileTest, AppearsWholeOnlyWhenCommitted) {
  const auto path = folder_ / "a";
  {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file) << file.error().message();
    const std::string text(3 << 20, 'x');  // more than is gathered before writing
    ASSERT_TRUE(file->write(std::as_bytes(std::span(text))));
    EXPECT_FALSE(fs::exists(path));
    OutputFile moved = std::move(*file);
    ASSERT_TRUE(moved.commit());
    EXPECT_EQ(read(path), text);
  }
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(OutputFileTest, ForgottenItLeavesWhatWasThere) {
  const auto path = folder_ / "a";
  ASSERT_TRUE(save(path, "old"));
  {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file);
    const std::string_view text = "new";
    ASSERT_TRUE(file->write(std::as_bytes(std::span(text))));
  }
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(n_files(), 1u);
  ASSERT_TRUE(save(path, "newer"));
  EXPECT_EQ(read(path), "newer");
}

TEST_F(OutputFileTest, ALinkStaysALinkAndAPrivateFileStaysPrivate) {
  const auto real = folder_ / "real", link = folder_ / "link";
  ASSERT_TRUE(save(real, "old"));
  fs::permissions(real, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", link);
  ASSERT_TRUE(save(link, "new"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read(real), "new");
  EXPECT_EQ(fs::status(real).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(OutputFileTest, ErrorsNameThePath) {
  const auto missing = save(folder_ / "none" / "a", "x");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_THAT(missing.error().message(), HasSubstr("none/a: the folder does not exist"));
  for (const fs::path& path : {folder_, fs::path("/dev/null")}) {
    const auto refused = save(path, "x");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::bad_argument);
    EXPECT_THAT(refused.error().message(), HasSubstr(path.string()));
  }
}

TEST_F(OutputFileTest, FinishedItIsOnTheDiskAndTheTargetIsUntouched) {
  const auto path = folder_ / "a";
  ASSERT_TRUE(save(path, "old"));
  const std::string_view text = "new";
  for (const bool is_kept : {false, true}) {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(std::as_bytes(std::span(text))));
    ASSERT_TRUE(file->finish());
    EXPECT_EQ(n_files(), 2u);
    for (const auto& entry : fs::directory_iterator(folder_)) {
      EXPECT_EQ(read(entry.path()), entry.path() == path ? "old" : "new");
    }
    if (is_kept) {
      ASSERT_TRUE(file->commit());
    }
  }
  EXPECT_EQ(read(path), "new");
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(OutputFileTest, ATemporaryOfAnotherIsLeftAlone) {
  const auto path = folder_ / "a";
  fs::path name;
  {
    const auto other = OutputFile::create(path);
    ASSERT_TRUE(other);
    name = fs::directory_iterator(folder_)->path();
  }
  // As a process with our number in another container would have it.
  std::ofstream(name, std::ios::binary) << "of another";
  ASSERT_TRUE(save(path, "mine"));
  EXPECT_EQ(read(path), "mine");
  EXPECT_EQ(read(name), "of another");
  EXPECT_EQ(n_files(), 2u);
}

TEST_F(OutputFileTest, AFullDiskChangesNothing) {
  const auto path = folder_ / "a";
  ASSERT_TRUE(save(path, "old"));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto refused = save(path, std::string(2000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_space);
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(n_files(), 1u);
}

}  // namespace
}  // namespace tokamak
