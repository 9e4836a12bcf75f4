// The file of a saved slot: tokens, the pages of the KV cache that stand for them, and states of recurrent layers.
//
// All numbers are little-endian u64 unless said otherwise.
//   magic       8 bytes "TKSLOT", version 1, 0
//   n_bytes     of the whole file
//   n_head      bytes up to the first page
//   model       fingerprint of the model file
//   page_size, page_bytes, state_floats, n_tokens, n_states
//   4 lengths   then the texts: layout, adapter, tenant (bytes), and one that is empty in this version
//   tokens      i32 [n_tokens]
//   positions   [n_states], ascending: how many tokens a state stands for
//   pages       ceil(n_tokens / page_size) times page_bytes, in the backend's own layout
//   states      f32 [n_states, state_floats]
//   checksum    XXH3 (64 bits, seed 0) of everything before
// Goals: a file under its name is whole, whatever happens to the process or the disk; a damaged, foreign or hostile one
// is refused before anything is used. Non-goals: moving files between backends, cache types or page sizes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "base/result.h"

namespace tokamak {

struct SlotHead {
  uint64_t model = 0;
  std::string layout;  // what the bytes of a page depend on, in words
  std::string adapter, tenant;
  uint64_t page_size = 0, page_bytes = 0, state_floats = 0;
  std::vector<int32_t> tokens;
  std::vector<uint64_t> positions;

  uint64_t n_pages() const { return page_size == 0 ? 0 : (tokens.size() + page_size - 1) / page_size; }
};

// A running checksum. Source: the XXH3 of libxxhash.
class Checksum {
 public:
  Checksum();
  void add(std::span<const std::byte> bytes);
  uint64_t value() const;

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

// The file gets its name when commit() has succeeded: then it is on the disk, and so is its folder's entry. Before that
// the name keeps what it was. Errors: those of OutputFile.
class SlotFileWriter {
 public:
  static Result<SlotFileWriter> create(const std::filesystem::path& path, const SlotHead& head);
  // The pages in order, then the states, in pieces of any size.
  Result<void> write(std::span<const std::byte> bytes);
  // Returns the bytes of the file. CHECKs that everything was written.
  Result<uint64_t> commit();

 private:
  SlotFileWriter(OutputFile file, std::filesystem::path folder, uint64_t n_bytes)
      : file_(std::move(file)), folder_(std::move(folder)), n_bytes_(n_bytes) {}
  OutputFile file_;
  std::filesystem::path folder_;
  Checksum checksum_;
  uint64_t n_bytes_, n_written_ = 0;
};

class SlotFileReader {
 public:
  // Reads all of it once and checks it: kind, version, sizes, checksum. Allocates nothing by a number in the file that
  // the file's size does not cover. Errors: not_found, io_failed, bad_argument (not such a file, damaged); they name
  // the file, never its folder.
  static Result<SlotFileReader> open(const std::filesystem::path& path);
  SlotFileReader(SlotFileReader&& other) noexcept;
  SlotFileReader& operator=(SlotFileReader&&) = delete;
  ~SlotFileReader();

  const SlotHead& head() const { return head_; }
  uint64_t n_bytes() const { return n_bytes_; }
  // Pages [first, first + out.size() / page_bytes); state `index`. Inside the file (CHECKed). Errors: io_failed.
  Result<void> read_pages(uint64_t first, std::span<std::byte> out) const;
  Result<void> read_state(uint64_t index, std::span<float> out) const;

 private:
  SlotFileReader(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  Result<void> check_size();
  Result<void> read_head();
  Result<void> check_sum() const;
  Result<void> read_at(uint64_t offset, std::span<std::byte> out) const;
  Error refuse(std::string what) const;

  int fd_ = -1;
  std::string name_;
  SlotHead head_;
  uint64_t n_head_ = 0, n_bytes_ = 0;
};

}  // namespace tokamak
