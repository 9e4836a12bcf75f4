#include "engine/slots.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "engine/service_engine.h"

namespace tokamak {

namespace {
constexpr int kSaveTries = 3;
constexpr size_t kMaxNameBytes = 200;

Error slot_error(ErrorCode code, std::string what, std::string hint = "") {
  return {.code = code, .what = std::move(what), .where = "", .hint = std::move(hint)};
}
Error crowded() {
  return slot_error(ErrorCode::queue_full, "running requests need the room in the cache", "try again later");
}
// The client knows the file by the request's field, not by its path.
template <class T>
Result<T> of_field(Result<T> result) {
  if (!result && result.error().code != ErrorCode::shutting_down && result.error().code != ErrorCode::device_failed)
    result.error().where = "filename";
  return result;
}
Error wrong_file(std::string what) {
  return {
      .code = ErrorCode::bad_argument, .what = std::move(what), .where = "filename", .hint = "nothing was restored"};
}

// Everything that the bytes of a page depend on, beside the model.
std::string layout_of(const Session& session) {
  const SessionOptions& o = session.options();
  const std::string layers = session.page_layout();
  return fmt::format("backend {}{}, cache type {}, page size {}, activations {}", o.backend,
                     layers.empty() ? "" : " (" + layers + ")", dtype_name(o.kv_type), o.page_size, o.activations);
}

size_t pages_per_piece(uint64_t page_bytes) {
  return static_cast<size_t>(std::max<uint64_t>(1, SlotStore::kPieceBytes / std::max<uint64_t>(page_bytes, 1)));
}

// The model file in short: metadata, directory, and some bytes of every tensor, so that fine-tuned weights differ.
uint64_t model_fingerprint(const Model& model) {
  constexpr size_t kSample = 4096;
  Checksum sum;
  const auto add = [&sum](const auto& range) { sum.add(std::as_bytes(std::span(range.data(), range.size()))); };
  for (const GgufValue& value : model.file().values()) {
    add(value.key());
    add(value.raw());
  }
  for (const GgufTensor& tensor : model.file().tensors()) {
    add(tensor.name);
    const uint64_t numbers[] = {static_cast<uint64_t>(tensor.type), tensor.n_bytes};
    sum.add(std::as_bytes(std::span(numbers)));
    const size_t n = std::min(kSample, tensor.data.size());
    sum.add(tensor.data.first(n));
    sum.add(tensor.data.subspan((tensor.data.size() - n) / 2, n));
  }
  return sum.value();
}
}  // namespace

bool is_plain_filename(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || name[0] == '.' || !is_valid_utf8(name)) return false;
  if (name.find(".partial-") != name.npos) return false;
  return std::ranges::none_of(name, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '/' || c == '\\' || c == ':';
  });
}

Result<std::filesystem::path> SlotStore::path_of(std::string_view filename) const {
  if (folder_.empty())
    return slot_error(ErrorCode::unsupported, "the server has no folder for slots", "start it with --slot-save-path");
  if (is_plain_filename(filename)) return folder_ / filename;
  return Error{.code = ErrorCode::bad_argument,
               .what = "must be the plain name of a file, without folders",
               .where = "filename"};
}

Result<void> SlotStore::check_slot(int64_t slot) const {
  if (slot >= 0 && slot < n_slots_) return {};
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("{} is outside 0..{}", slot, n_slots_ - 1),
               .where = "id_slot"};
}

uint64_t SlotStore::fingerprint() {
  if (!fingerprint_) fingerprint_ = model_fingerprint(service_.model());
  return *fingerprint_;
}

// Whether what was read out of the cache, or written to it, is what it should be.
Result<void> SlotStore::check_device() {
  std::optional<Error> lost;
  TRY(service_.between_steps([&](ServiceEngine& engine) { lost = engine.session().backend().lost(); }));
  if (lost) return *std::move(lost);
  return {};
}

// --- save ---

// What of the slot the cache has now.
Result<SlotHead> SlotStore::plan(int64_t slot, const std::string& tenant) {
  SlotHead head{.model = fingerprint(), .tenant = tenant};
  TRY(service_.between_steps([&](ServiceEngine& engine) {
    const ServiceEngine::Slot& from = engine.slots()[static_cast<size_t>(slot)];
    if (from.key.tenant != tenant) return;
    const Session& session = engine.session();
    const PrefixCache::Stored stored = engine.cache().stored(from.key, from.tokens);
    head.layout = layout_of(session);
    head.adapter = from.key.adapter;
    head.page_size = static_cast<uint64_t>(session.options().page_size);
    head.page_bytes = session.page_bytes();
    head.state_floats = static_cast<uint64_t>(session.state_floats());
    int64_t n_tokens = stored.n_tokens;
    if (session.state_floats() > 0) n_tokens = stored.states.empty() ? 0 : stored.states.rbegin()->first;
    for (const auto& [position, state] : stored.states) head.positions.push_back(static_cast<uint64_t>(position));
    head.tokens.assign(from.tokens.begin(), from.tokens.begin() + n_tokens);
  }));
  if (head.tokens.empty())
    return slot_error(ErrorCode::bad_argument, fmt::format("slot {} holds nothing that could be saved", slot),
                      "it is what a request of this tenant with cache_prompt left in the cache");
  return head;
}

// Nothing when the cache lost a part of it in between.
Result<std::optional<SlotReport>> SlotStore::try_save(const std::filesystem::path& path, const SlotHead& head) {
  SlotFileWriter file = TRY(SlotFileWriter::create(path, head));
  const PrefixKey key{.adapter = head.adapter, .tenant = head.tenant};
  const auto n_tokens = static_cast<int64_t>(head.tokens.size());
  const size_t n_pages = head.n_pages(), n_piece = pages_per_piece(head.page_bytes);
  bool is_there = true;
  std::vector<std::byte> piece;
  for (size_t first = 0; first < n_pages; first += n_piece) {
    piece.resize(std::min(n_piece, n_pages - first) * head.page_bytes);
    TRY(service_.between_steps([&](ServiceEngine& engine) {
      const PrefixCache::Stored stored = engine.cache().stored(key, head.tokens);
      is_there = stored.n_tokens == n_tokens;
      for (size_t at = 0; is_there && at < piece.size(); at += head.page_bytes)
        engine.session().read_page(stored.pages[first + at / head.page_bytes],
                                   std::span(piece).subspan(at, head.page_bytes));
    }));
    if (!is_there) return std::optional<SlotReport>();
    TRY(file.write(piece));
  }
  std::vector<float> state(head.state_floats);
  for (const uint64_t position : head.positions) {
    TRY(service_.between_steps([&](ServiceEngine& engine) {
      const PrefixCache::Stored stored = engine.cache().stored(key, head.tokens);
      const auto found = stored.states.find(static_cast<int64_t>(position));
      is_there = found != stored.states.end();
      if (is_there) std::ranges::copy(found->second, state.begin());
    }));
    if (!is_there) return std::optional<SlotReport>();
    TRY(file.write(std::as_bytes(std::span(state))));
  }
  TRY(check_device());
  return std::optional(SlotReport{.n_tokens = n_tokens, .n_bytes = TRY(file.commit())});
}

Result<SlotReport> SlotStore::save(int64_t slot, std::string_view filename, const std::string& tenant) {
  const std::scoped_lock lock(mutex_);
  TRY(check_slot(slot));
  const std::filesystem::path path = TRY(path_of(filename));
  if (std::error_code error; std::filesystem::is_symlink(path, error))
    return Error{.code = ErrorCode::bad_argument, .what = "is a link; links are not followed", .where = "filename"};
  for (int i = 0; i < kSaveTries; ++i) {
    const SlotHead head = TRY(plan(slot, tenant));
    if (const auto report = TRY(of_field(try_save(path, head)))) return *report;
  }
  return crowded();
}

// --- restore ---

Result<void> SlotStore::check_fits(const SlotHead& head, const std::string& tenant) {
  if (head.model != fingerprint()) return wrong_file("was saved with another model");
  if (head.tenant != tenant) return wrong_file("was saved for another tenant");
  const int64_t n_vocab = service_.model().hparams().n_vocab, n_ctx = service_.n_ctx();
  const auto n_tokens = static_cast<int64_t>(head.tokens.size());
  if (!std::ranges::all_of(head.tokens, [&](int32_t id) { return id >= 0 && id < n_vocab; }))
    return wrong_file("holds token ids that the model does not have");
  if (n_tokens > n_ctx)
    return Error{.code = ErrorCode::context_full,
                 .what = fmt::format("holds {} tokens, the context {}", n_tokens, n_ctx),
                 .where = "filename"};
  Result<void> fits;
  TRY(service_.between_steps([&](ServiceEngine& engine) {
    const Session& session = engine.session();
    const std::string layout = layout_of(session);
    const PrefixCache& cache = engine.cache();
    const uint64_t n_bytes = cache.entry_bytes(n_tokens, static_cast<int64_t>(head.positions.size()));
    if (head.layout != layout)
      fits = wrong_file(fmt::format("was saved with {}; this server has {}", head.layout, layout));
    else if (head.page_size != static_cast<uint64_t>(session.options().page_size) ||
             head.page_bytes != session.page_bytes() ||
             head.state_floats != static_cast<uint64_t>(session.state_floats()))
      fits = wrong_file("has pages or states of other sizes than this server");
    else if (session.state_floats() > 0 && (head.positions.empty() || head.positions.back() != head.tokens.size()))
      fits = wrong_file("lacks the state after its last token");
    else if (n_bytes > cache.max_bytes() || (cache.max_tokens() > 0 && n_tokens > cache.max_tokens()))
      fits = wrong_file(fmt::format("needs {} bytes of the cache, which may hold {} (--cache-ram, --cache-tokens)",
                                    n_bytes, cache.max_bytes()));
  }));
  return fits;
}

namespace {
// The cache holds the first n_whole pages of the tokens and gets the next ones. False when it cannot.
bool add_pages(ServiceEngine& engine, const PrefixKey& key, std::span<const int32_t> tokens, size_t n_whole,
               std::span<const std::byte> bytes) {
  Session& session = engine.session();
  const size_t page_bytes = session.page_bytes(), n_new = bytes.size() / page_bytes;
  const auto page_size = static_cast<size_t>(session.options().page_size);
  tokens = tokens.first(std::min(tokens.size(), (n_whole + n_new) * page_size));
  if (!engine.cache().reclaim(static_cast<int64_t>(n_new))) return false;
  std::vector<int32_t> pages = engine.cache().stored(key, tokens).pages;
  if (pages.size() < n_whole) return false;  // it gave way
  pages.resize(n_whole);
  const int32_t seq_id = session.add_sequence();
  const bool has_room =
      session.pages().extend(seq_id, static_cast<int64_t>(tokens.size() - n_whole * page_size)).has_value();
  if (has_room) {
    for (size_t i = 0; i < n_new; ++i) {
      pages.push_back(session.pages().pages(seq_id)[i]);
      session.write_page(pages.back(), bytes.subspan(i * page_bytes, page_bytes));
    }
    engine.cache().insert(key, tokens, pages);
  }
  session.pages().free_sequence(seq_id);
  return has_room && engine.cache().stored(key, tokens).n_tokens == static_cast<int64_t>(tokens.size());
}
}  // namespace

Result<void> SlotStore::restore_pages(const SlotFileReader& file) {
  const SlotHead& head = file.head();
  const PrefixKey key{.adapter = head.adapter, .tenant = head.tenant};
  const size_t n_pages = head.n_pages(), n_piece = pages_per_piece(head.page_bytes);
  size_t first = 0;
  bool is_complete = false;
  TRY(service_.between_steps([&](ServiceEngine& engine) {
    const int64_t n_stored = engine.cache().stored(key, head.tokens).n_tokens;
    is_complete = n_stored == static_cast<int64_t>(head.tokens.size());
    first = static_cast<size_t>(n_stored) / head.page_size;
  }));
  if (is_complete) return {};
  std::vector<std::byte> piece;
  for (; first < n_pages; first += n_piece) {
    piece.resize(std::min(n_piece, n_pages - first) * head.page_bytes);
    TRY(file.read_pages(first, piece));
    bool is_added = false;
    TRY(service_.between_steps(
        [&](ServiceEngine& engine) { is_added = add_pages(engine, key, head.tokens, first, piece); }));
    if (!is_added) return crowded();
  }
  return {};
}

Result<void> SlotStore::restore_states(const SlotFileReader& file) {
  const SlotHead& head = file.head();
  const PrefixKey key{.adapter = head.adapter, .tenant = head.tenant};
  std::vector<float> state(head.state_floats);
  for (size_t i = 0; i < head.positions.size(); ++i) {
    TRY(file.read_state(i, state));
    const auto tokens = std::span(head.tokens).first(head.positions[i]);
    bool is_added = false;
    TRY(service_.between_steps([&](ServiceEngine& engine) {
      const PrefixCache::Stored stored = engine.cache().stored(key, tokens);
      is_added = stored.n_tokens == static_cast<int64_t>(tokens.size()) &&
                 engine.cache().insert(key, tokens, stored.pages, [&](std::span<float> out) {
                   std::ranges::copy(state, out.begin());
                 }) != PrefixCache::Saved::too_large;
    }));
    if (!is_added) return crowded();
  }
  return {};
}

Result<SlotReport> SlotStore::restore(int64_t slot, std::string_view filename, const std::string& tenant) {
  const std::scoped_lock lock(mutex_);
  TRY(check_slot(slot));
  const SlotFileReader file = TRY(of_field(SlotFileReader::open(TRY(path_of(filename)))));
  TRY(check_fits(file.head(), tenant));
  TRY(restore_pages(file));
  TRY(restore_states(file));
  TRY(check_device());
  const SlotHead& head = file.head();
  TRY(service_.between_steps([&](ServiceEngine& engine) {
    engine.slots()[static_cast<size_t>(slot)] = {.key = {.adapter = head.adapter, .tenant = head.tenant},
                                                 .tokens = head.tokens};
  }));
  return SlotReport{.n_tokens = static_cast<int64_t>(head.tokens.size()), .n_bytes = file.n_bytes()};
}

Result<int64_t> SlotStore::erase(int64_t slot, const std::string& tenant) {
  const std::scoped_lock lock(mutex_);
  TRY(check_slot(slot));
  int64_t n_erased = 0;
  TRY(service_.between_steps([&](ServiceEngine& engine) {
    ServiceEngine::Slot& from = engine.slots()[static_cast<size_t>(slot)];
    if (from.key.tenant != tenant) return;
    n_erased = static_cast<int64_t>(from.tokens.size());
    engine.cache().erase(from.key, from.tokens);
    from = {};
  }));
  return n_erased;
}

}  // namespace tokamak
