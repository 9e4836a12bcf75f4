// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"

namespace tokamak {

// Writes beside the target (TARGET.partial-PID-N, a name that nobody else has) and renames at the end. Until commit()
// has succeeded the target keeps its old content; a destroyed OutputFile removes what it wrote. Errors: no_space (full
// disk, quota, file size limit), not_found (no such folder), bad_argument (the target is a folder or a device),
// io_failed.
class OutputFile {
 public:
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  static Result<OutputFile> create(const std::filesystem::path& target);
  Result<void> write(std::span<const std::byte> bytes);
  // Flushes to the disk and closes, which needs space but changes no target: for files that appear together. Nothing
  // may be written afterwards.
  Result<void> finish();
  // finish(), then renames.
  Result<void> commit();

 private:
  OutputFile() = default;
  Result<void> open_temporary();
  Result<void> write_all(std::span<const std::byte> bytes);
  Error failed(const char* action, int error_number) const;

  std::filesystem::path target_, temporary_;  // temporary_ is empty when there is none
  int fd_ = -1;
  std::vector<std::byte> pending_;  // small writes are gathered
};

}  // namespace tokamak
