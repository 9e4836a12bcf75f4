// Slots: names for what requests left in the prefix cache, and their way to files and back.
//
// Terms. The engine keeps prompts in a radix tree, not in fixed places. Slot k is the last request that ran on sequence
// k, or that asked for slot k: its tokens, as far as the cache still has them. Saving copies tokens, pages and states
// of recurrent layers out of the cache; restoring puts them back into it, so that any request that begins alike finds
// them. Work is done in pieces of kPieceBytes between the engine's steps; files are read and written on the caller's
// thread. Goals: no stream waits longer than one piece; no page is held across steps, so requests never lack one
// because of a slot; the cache's limits hold. See docs/rationale/slots.md.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "engine/service.h"
#include "engine/slot_file.h"

namespace tokamak {

struct SlotReport {
  int64_t n_tokens = 0;
  uint64_t n_bytes = 0;  // of the file
};

// All functions block, one at a time; not from a sink. Errors of all: bad_argument (the slot's number, a name that is
// no plain one), shutting_down, device_failed (it is lost).
class SlotStore {
 public:
  static constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

  // `folder` empty: save and restore answer unsupported. The service must outlive this.
  SlotStore(Service& service, std::filesystem::path folder, int64_t n_slots)
      : service_(service), folder_(std::move(folder)), n_slots_(n_slots) {}

  // A file of that name is replaced when the new one is complete. Errors: bad_argument (the slot is empty), no_space,
  // io_failed, queue_full (running requests push it out of the cache while it is read).
  Result<SlotReport> save(int64_t slot, std::string_view filename, const std::string& tenant);
  // Nothing is changed by a file that does not fit: errors not_found, bad_argument (damaged, of another model, cache or
  // tenant, larger than the cache may be), context_full, queue_full (running requests need the room).
  Result<SlotReport> restore(int64_t slot, std::string_view filename, const std::string& tenant);
  // Out of the cache, but for what other entries share. Returns how many tokens the slot had.
  Result<int64_t> erase(int64_t slot, const std::string& tenant);

 private:
  Result<std::filesystem::path> path_of(std::string_view filename) const;
  Result<void> check_slot(int64_t slot) const;
  Result<SlotHead> plan(int64_t slot, const std::string& tenant);
  Result<std::optional<SlotReport>> try_save(const std::filesystem::path& path, const SlotHead& head);
  Result<void> check_fits(const SlotHead& head, const std::string& tenant);
  Result<void> restore_pages(const SlotFileReader& file);
  Result<void> restore_states(const SlotFileReader& file);
  uint64_t fingerprint();
  Result<void> check_device();

  Service& service_;
  const std::filesystem::path folder_;
  const int64_t n_slots_;
  std::mutex mutex_;
  std::optional<uint64_t> fingerprint_;
};

// A name for a file inside a folder: not empty, at most 200 bytes of UTF-8, no separators, control characters or
// leading dot, and none of this program's names for unfinished files.
bool is_plain_filename(std::string_view name);

}  // namespace tokamak
