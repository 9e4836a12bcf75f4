// A whole file mapped read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace tokamak {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Errors: not_found, bad_argument (a folder), io_failed. An empty file maps to an empty span.
  static Result<MappedFile> open(const std::filesystem::path& path);

  std::span<const std::byte> bytes() const { return {data_, n_bytes_}; }
  // The kernel may drop these pages from memory; reading them again reads the file. Ranges outside are ignored.
  void forget(std::span<const std::byte> range) const;

 private:
  const std::byte* data_ = nullptr;
  size_t n_bytes_ = 0;
};

}  // namespace tokamak
