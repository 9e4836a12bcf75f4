#include "base/partial_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/output_file.h"

namespace tokamak::test {
namespace {

namespace fs = std::filesystem;

TEST(PartialFiles, OnlyUnfinishedFilesAreTaken) {
  const fs::path folder = fs::temp_directory_path() / ("tokamak_partial_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "other") << "x";
  std::optional<OutputFile> finished = *OutputFile::create(folder / "finished");
  ASSERT_TRUE(finished->commit().has_value());
  std::optional<OutputFile> given_up = *OutputFile::create(folder / "given_up");
  given_up.reset();
  const OutputFile open = *OutputFile::create(folder / "open"), second = *OutputFile::create(folder / "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 4);
  unlink_partial_files();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
  EXPECT_TRUE(fs::exists(folder / "other"));
  EXPECT_TRUE(fs::exists(folder / "finished"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tokamak::test
