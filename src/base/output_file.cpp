#include "base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/partial_files.h"

namespace tokamak {

namespace {
constexpr size_t kPendingBytes = size_t{1} << 20;
constexpr int kMaxTemporaries = 1000;  // of one process number and target; more than one only after crashes

bool means_no_space(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
}
}  // namespace

OutputFile::OutputFile(OutputFile&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)),
      pending_(std::move(other.pending_)) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  forget_partial_file(temporary_.native());
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

// Process numbers are not unique among containers that share a folder: a name that exists is another's.
Result<void> OutputFile::open_temporary() {
  for (int i = 0; fd_ < 0; ++i) {
    std::filesystem::path name = target_;
    name += fmt::format(".partial-{}-{}", ::getpid(), i);
    struct stat taken {};
    if (i < kMaxTemporaries && ::lstat(name.c_str(), &taken) == 0) continue;
    add_partial_file(name.native());  // before it is there: a signal may come at once
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0) {
      temporary_ = std::move(name);
      continue;
    }
    const int error_number = errno;
    forget_partial_file(name.native());
    if (error_number != EEXIST || i == kMaxTemporaries) return failed("create", error_number);
  }
  return {};
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
  TRY(file.open_temporary());
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

Result<void> OutputFile::finish() {
  if (fd_ < 0) return {};
  TRY(write_all(pending_));
  pending_ = {};
  if (::fsync(fd_) != 0) return failed("write", errno);
  ::close(std::exchange(fd_, -1));
  return {};
}

Result<void> OutputFile::commit() {
  TRY(finish());
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return failed("rename", errno);
  forget_partial_file(temporary_.native());
  temporary_.clear();
  return {};
}

}  // namespace tokamak
