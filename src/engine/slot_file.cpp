#include "engine/slot_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace tokamak {

namespace {
static_assert(std::endian::native == std::endian::little, "the file is little-endian");
constexpr uint64_t kMagic = 0x0001'544F'4C53'4B54;  // "TKSLOT", then version 1
constexpr uint64_t kVersionMask = 0xFFFF'0000'0000'0000;
constexpr uint64_t kMaxText = 4096;  // bytes of each text
constexpr size_t kReadBytes = size_t{1} << 20;

// The fixed beginning.
struct Fixed {
  uint64_t magic = kMagic, n_bytes = 0, n_head = 0, model = 0;
  uint64_t page_size = 0, page_bytes = 0, state_floats = 0, n_tokens = 0, n_states = 0;
  uint64_t n_layout = 0, n_adapter = 0, n_tenant = 0, n_more = 0;
};
static_assert(sizeof(Fixed) == 13 * sizeof(uint64_t));

template <class T>
std::span<const std::byte> bytes_of(const T& object) {
  return std::as_bytes(std::span(&object, 1));
}

// a * b + c, or nothing when that leaves 64 bits.
bool multiply_add(uint64_t a, uint64_t b, uint64_t& sum) {
  uint64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(sum, product, &sum);
}

// Sizes that follow from the counts; false when they cannot be.
bool sizes(const Fixed& f, uint64_t& n_head, uint64_t& n_bytes) {
  if (f.page_size == 0 || f.n_tokens == 0 || f.n_tokens > INT32_MAX || f.page_size > INT32_MAX) return false;
  n_head = sizeof(Fixed);
  for (const uint64_t n : {f.n_layout, f.n_adapter, f.n_tenant, f.n_more})
    if (n > kMaxText || !multiply_add(n, 1, n_head)) return false;
  if (!multiply_add(f.n_tokens, sizeof(int32_t), n_head) || !multiply_add(f.n_states, sizeof(uint64_t), n_head))
    return false;
  n_bytes = n_head;
  uint64_t state_bytes = 0;
  return multiply_add((f.n_tokens + f.page_size - 1) / f.page_size, f.page_bytes, n_bytes) &&
         multiply_add(f.state_floats, sizeof(float), state_bytes) && multiply_add(f.n_states, state_bytes, n_bytes) &&
         multiply_add(1, sizeof(uint64_t), n_bytes);
}

// So that the name survives a power failure too. Some file systems cannot do that for folders.
void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  static_cast<void>(::fsync(fd));
  ::close(fd);
}
}  // namespace

Checksum::Checksum() : state_(XXH3_createState()) {
  CHECK(state_ != nullptr);
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_.get()));
}
void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(), bytes.size());
}
uint64_t Checksum::value() const { return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_.get())); }
void Checksum::Free::operator()(void* state) const { XXH3_freeState(static_cast<XXH3_state_t*>(state)); }

Result<SlotFileWriter> SlotFileWriter::create(const std::filesystem::path& path, const SlotHead& head) {
  Fixed fixed{.model = head.model,
              .page_size = head.page_size,
              .page_bytes = head.page_bytes,
              .state_floats = head.state_floats,
              .n_tokens = head.tokens.size(),
              .n_states = head.positions.size(),
              .n_layout = head.layout.size(),
              .n_adapter = head.adapter.size(),
              .n_tenant = head.tenant.size()};
  if (!sizes(fixed, fixed.n_head, fixed.n_bytes))
    return Error{.code = ErrorCode::bad_argument,
                 .what = "the names of adapter and tenant are too long to be saved",
                 .where = path.filename().string()};
  SlotFileWriter writer(TRY(OutputFile::create(path)), path.parent_path(), fixed.n_bytes);
  TRY(writer.write(bytes_of(fixed)));
  for (const std::string* text : {&head.layout, &head.adapter, &head.tenant})
    TRY(writer.write(std::as_bytes(std::span(*text))));
  TRY(writer.write(std::as_bytes(std::span(head.tokens))));
  TRY(writer.write(std::as_bytes(std::span(head.positions))));
  return writer;
}

Result<void> SlotFileWriter::write(std::span<const std::byte> bytes) {
  checksum_.add(bytes);
  n_written_ += bytes.size();
  return file_.write(bytes);
}

Result<uint64_t> SlotFileWriter::commit() {
  CHECK(n_written_ + sizeof(uint64_t) == n_bytes_, n_written_, n_bytes_);
  const uint64_t sum = checksum_.value();
  TRY(file_.write(bytes_of(sum)));
  TRY(file_.commit());
  sync_folder(folder_);
  return n_bytes_;
}

SlotFileReader::SlotFileReader(SlotFileReader&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      name_(std::move(other.name_)),
      head_(std::move(other.head_)),
      n_head_(other.n_head_),
      n_bytes_(other.n_bytes_) {}

SlotFileReader::~SlotFileReader() {
  if (fd_ >= 0) ::close(fd_);
}

Error SlotFileReader::refuse(std::string what) const {
  return {.code = ErrorCode::bad_argument, .what = std::move(what), .where = name_, .hint = "nothing was restored"};
}

Result<SlotFileReader> SlotFileReader::open(const std::filesystem::path& path) {
  // Not through links, and without waiting should it be a pipe.
  SlotFileReader reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), path.filename().string());
  if (reader.fd_ < 0 && errno == ENOENT)
    return Error{.code = ErrorCode::not_found, .what = "there is no such saved slot", .where = reader.name_};
  if (reader.fd_ < 0) return Error{.code = ErrorCode::io_failed, .what = std::strerror(errno), .where = reader.name_};
  TRY(reader.check_size());
  TRY(reader.read_head());
  TRY(reader.check_sum());
  return reader;
}

Result<void> SlotFileReader::read_at(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{.code = ErrorCode::io_failed, .what = std::strerror(errno), .where = name_};
    if (n == 0) return refuse("the file ends too early");
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Result<void> SlotFileReader::check_size() {
  struct stat info {};
  if (::fstat(fd_, &info) != 0)
    return Error{.code = ErrorCode::io_failed, .what = std::strerror(errno), .where = name_};
  if (!S_ISREG(info.st_mode)) return refuse("is no file");
  n_bytes_ = static_cast<uint64_t>(info.st_size);
  if (n_bytes_ < sizeof(Fixed) + sizeof(uint64_t)) return refuse("is no saved slot");
  return {};
}

Result<void> SlotFileReader::read_head() {
  Fixed fixed;
  TRY(read_at(0, std::as_writable_bytes(std::span(&fixed, 1))));
  if ((fixed.magic | kVersionMask) != (kMagic | kVersionMask)) return refuse("is no saved slot");
  if (fixed.magic != kMagic)
    return refuse(fmt::format("has version {}, this program reads version 1", fixed.magic >> 48));
  uint64_t n_expected = 0;
  if (!sizes(fixed, n_head_, n_expected) || n_head_ != fixed.n_head || n_expected != fixed.n_bytes ||
      fixed.n_bytes != n_bytes_ || fixed.n_more != 0)
    return refuse("is damaged: its sizes do not fit each other");
  uint64_t offset = sizeof(Fixed);
  const auto read = [&](auto& out, uint64_t n) -> Result<void> {
    out.resize(n);
    const auto bytes = std::as_writable_bytes(std::span(out));
    offset += bytes.size();
    return read_at(offset - bytes.size(), bytes);
  };
  head_ = {.model = fixed.model,
           .page_size = fixed.page_size,
           .page_bytes = fixed.page_bytes,
           .state_floats = fixed.state_floats};
  TRY(read(head_.layout, fixed.n_layout));
  TRY(read(head_.adapter, fixed.n_adapter));
  TRY(read(head_.tenant, fixed.n_tenant));
  TRY(read(head_.tokens, fixed.n_tokens));
  TRY(read(head_.positions, fixed.n_states));
  for (size_t i = 0; i < head_.positions.size(); ++i)
    if (head_.positions[i] > fixed.n_tokens || head_.positions[i] <= (i > 0 ? head_.positions[i - 1] : 0))
      return refuse("is damaged: the positions of its states are not in order");
  return {};
}

Result<void> SlotFileReader::check_sum() const {
  Checksum sum;
  std::vector<std::byte> piece(kReadBytes);
  const uint64_t n_checked = n_bytes_ - sizeof(uint64_t);
  for (uint64_t offset = 0; offset < n_checked; offset += kReadBytes) {
    const auto part = std::span(piece).first(std::min<uint64_t>(kReadBytes, n_checked - offset));
    TRY(read_at(offset, part));
    sum.add(part);
  }
  uint64_t stored = 0;
  TRY(read_at(n_checked, std::as_writable_bytes(std::span(&stored, 1))));
  if (stored != sum.value()) return refuse("is damaged: the checksum does not fit");
  return {};
}

Result<void> SlotFileReader::read_pages(uint64_t first, std::span<std::byte> out) const {
  CHECK(first * head_.page_bytes + out.size() <= head_.n_pages() * head_.page_bytes, first, out.size());
  return read_at(n_head_ + first * head_.page_bytes, out);
}

Result<void> SlotFileReader::read_state(uint64_t index, std::span<float> out) const {
  CHECK(index < head_.positions.size() && out.size() == head_.state_floats, index, out.size());
  const uint64_t states = n_head_ + head_.n_pages() * head_.page_bytes;
  return read_at(states + index * head_.state_floats * sizeof(float), std::as_writable_bytes(out));
}

}  // namespace tokamak
