#include "base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tokamak {

namespace {
constexpr size_t kPendingBytes = size_t{1} << 20;

bool means_no_space(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
}
}  // namespace

OutputFile::OutputFile(OutputFile&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      pending_(std::move(other.pending_)) {}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Error OutputFile::failed(const char* action, int error_number) const {
  const std::string where = target_.string();
  if (means_no_space(error_number))
    return Error{.code = ErrorCode::no_space,
                 .what = fmt::format("no space left to {} the file", action),
                 .where = where,
                 .hint = "free some space or choose another disk; nothing was changed"};
  const bool missing = error_number == ENOENT || error_number == ENOTDIR;
  return Error{.code = missing ? ErrorCode::not_found : ErrorCode::io_failed,
               .what = missing ? "the folder does not exist"
                               : fmt::format("cannot {} the file: {}", action, std::strerror(error_number)),
               .where = where,
               .hint = missing ? "create the folder first" : ""};
}

Result<OutputFile> OutputFile::create(const std::filesystem::path& target) {
  OutputFile file;
  std::error_code no_link;
  file.target_ =
      std::filesystem::is_symlink(target, no_link) ? std::filesystem::weakly_canonical(target, no_link) : target;
  if (file.target_.empty()) file.target_ = target;
  struct stat info {};
  const bool exists = ::stat(target.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode))  // renaming would replace a device
    return Error{.code = ErrorCode::bad_argument,
                 .what = S_ISDIR(info.st_mode) ? "is a folder, not a file" : "is not a regular file",
                 .where = target.string(),
                 .hint = "name a file"};
  file.temporary_ = file.target_;
  file.temporary_ += fmt::format(".partial-{}", ::getpid());
  file.fd_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file.fd_ < 0) return file.failed("create", errno);
  if (exists && ::fchmod(file.fd_, info.st_mode & 07777) != 0) return file.failed("create", errno);  // private stays so
  return file;
}

Result<void> OutputFile::write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> OutputFile::write(std::span<const std::byte> bytes) {
  if (pending_.size() + bytes.size() > kPendingBytes) {
    TRY(write_all(pending_));
    pending_.clear();
  }
  if (bytes.size() >= kPendingBytes) return write_all(bytes);
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  return {};
}

Result<void> OutputFile::commit() {
  TRY(write_all(pending_));
  pending_.clear();
  if (::fsync(fd_) != 0) return failed("write", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return failed("rename", errno);
  ::close(std::exchange(fd_, -1));
  return {};
}

}  // namespace tokamak
