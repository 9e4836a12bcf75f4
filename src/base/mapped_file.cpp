#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/round_up.h"

namespace tokamak {

namespace {
Error file_error(const std::filesystem::path& path, int error_number) {
  const bool missing = error_number == ENOENT || error_number == ENOTDIR;
  return Error{.code = missing ? ErrorCode::not_found : ErrorCode::io_failed,
               .what = missing ? "no such file" : std::string("cannot read: ") + std::strerror(error_number),
               .where = path.string(),
               .hint = missing ? "check the path" : ""};
}
}  // namespace

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), n_bytes_(std::exchange(other.n_bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(n_bytes_, other.n_bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), n_bytes_);
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not wait for a writer
  if (fd < 0) return file_error(path, errno);
  struct stat info {};
  const int stat_status = fstat(fd, &info);
  const int stat_errno = errno;
  MappedFile file;
  void* p = nullptr;
  int map_errno = 0;
  if (stat_status == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    p = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    map_errno = errno;
  }
  ::close(fd);
  if (stat_status != 0) return file_error(path, stat_errno);
  if (!S_ISREG(info.st_mode))
    return Error{.code = ErrorCode::bad_argument,
                 .what = S_ISDIR(info.st_mode) ? "is a folder, not a file" : "is not a regular file",
                 .where = path.string()};
  if (p == MAP_FAILED) return file_error(path, map_errno);
  file.data_ = static_cast<const std::byte*>(p);
  file.n_bytes_ = static_cast<size_t>(info.st_size);
  return file;
}

void MappedFile::forget(std::span<const std::byte> range) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = round_up(reinterpret_cast<uintptr_t>(range.data()), page);
  const auto end = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
  const auto base = reinterpret_cast<uintptr_t>(data_);
  if (!data_ || begin < base || end > base + n_bytes_ || begin >= end) return;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace tokamak
