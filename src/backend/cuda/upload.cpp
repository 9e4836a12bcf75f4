#include "backend/cuda/upload.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"

namespace tokamak::cuda {

namespace {
constexpr uint64_t kSlotBytes = uint64_t{64} << 20;
}

Result<std::unique_ptr<Uploader>> Uploader::create(Device& device, std::byte* to, uint64_t n_bytes) {
  std::unique_ptr<Uploader> out(new Uploader(device, to));
  TRY(device.use());
  TRY(out->reserve(std::min(n_bytes, kSlotBytes)));
  for (Slot& slot : out->slots_)
    TRY(check_cuda(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming), "making an event"));
  out->pool_ = TRY(ThreadPool::create(usable_cpus()));
  return out;
}

Uploader::~Uploader() {
  device_.enter();
  device_.note(cudaStreamSynchronize(device_.stream()));
  for (const Slot& slot : slots_)
    if (slot.copied) device_.note(cudaEventDestroy(slot.copied));
}

// Slots of so many bytes; nothing travels from them now.
Result<void> Uploader::reserve(uint64_t n_bytes) {
  for (Slot& slot : slots_) {
    slot.memory = {};
    slot.memory = TRY(PinnedBuffer::allocate(n_bytes));
  }
  slot_bytes_ = n_bytes;
  return {};
}

Result<void> Uploader::add(ImagePiece piece) {
  if (piece.n_bytes > slot_bytes_) {  // rows without end: a file may have them
    TRY(finish());
    TRY(reserve(piece.n_bytes));
  }
  CHECK(pieces_.empty() || piece.offset >= pieces_.back().offset + pieces_.back().n_bytes, piece.offset);
  if (!pieces_.empty() && piece.offset + piece.n_bytes - pieces_.front().offset > slot_bytes_) TRY(flush());
  pieces_.push_back(std::move(piece));
  return {};
}

// Every piece and the gap behind it, to `out` as to the first piece's place.
void Uploader::make(std::byte* out) {
  std::atomic<size_t> next = 0;
  const uint64_t first = pieces_.front().offset;
  pool_->run([&](int, int) {
    for (size_t i = next++; i < pieces_.size(); i = next++) {
      const ImagePiece& piece = pieces_[i];
      piece.make(out + (piece.offset - first));
      if (i + 1 == pieces_.size()) continue;
      const uint64_t end = piece.offset + piece.n_bytes;
      std::memset(out + (end - first), 0, pieces_[i + 1].offset - end);
    }
  });
}

Result<void> Uploader::flush() {
  if (pieces_.empty()) return {};
  Slot& slot = slots_[n_flushed_ % slots_.size()];
  TRY(device_.use());
  TRY(check_cuda(cudaEventSynchronize(slot.copied), "uploading weights"));
  make(slot.memory.data());
  const uint64_t first = pieces_.front().offset;
  const uint64_t n_bytes = pieces_.back().offset + pieces_.back().n_bytes - first;
  TRY(check_cuda(cudaMemcpyAsync(to_ + first, slot.memory.data(), n_bytes, cudaMemcpyHostToDevice, device_.stream()),
                 "uploading weights"));
  TRY(check_cuda(cudaEventRecord(slot.copied, device_.stream()), "uploading weights"));
  pieces_.clear();
  ++n_flushed_;
  return {};
}

Result<void> Uploader::finish() {
  TRY(flush());
  return device_.finish("uploading weights");
}

}  // namespace tokamak::cuda
