#include "backend/split/kv.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tokamak::split {

namespace {
KvConfig part_config(const KvConfig& config, std::span<const size_t> state_children, size_t child) {
  KvConfig part = config;
  for (size_t layer = 0; layer < part.layers.size(); ++layer) {
    if (state_children[layer] == child) continue;
    part.layers[layer].n_head_kv = 0;
    if (!part.recurrent.empty()) part.recurrent[layer] = {};
  }
  return part;
}

size_t row_floats(const RecurrentLayerShape& layer) {
  return static_cast<size_t>(layer.conv_elems + layer.recurrent_elems);
}
}  // namespace

void append_named(std::vector<MemoryUse>& out, std::vector<MemoryUse> part, std::string_view device) {
  for (MemoryUse& use : part) {
    use.what += fmt::format(" ({})", device);
    if (!use.device.empty()) use.device = device;
    out.push_back(std::move(use));
  }
}

Result<std::unique_ptr<SplitKv>> SplitKv::create(const KvConfig& config, std::span<const size_t> state_children,
                                                 std::span<const std::unique_ptr<Backend>> children,
                                                 std::span<const std::string> devices) {
  CHECK(state_children.size() == config.layers.size(), state_children.size());
  auto kv = std::make_unique<SplitKv>();
  kv->config_ = config;
  kv->state_children_.assign(state_children.begin(), state_children.end());
  kv->devices_.assign(devices.begin(), devices.end());
  for (size_t child = 0; child < children.size(); ++child)
    kv->parts_.push_back(TRY(children[child]->make_kv(part_config(config, state_children, child))));
  return kv;
}

std::vector<MemoryUse> SplitKv::memory() const {
  std::vector<MemoryUse> out;
  for (size_t child = 0; child < parts_.size(); ++child) append_named(out, parts_[child]->memory(), devices_[child]);
  out.push_back({.what = "values between devices", .n_bytes = boundary_.size()});
  return out;
}

template <class Fn>
void SplitKv::for_each_layer(Fn fn) const {
  std::vector<size_t> at(parts_.size());
  size_t whole = 0;
  for (size_t layer = 0; layer < config_.recurrent.size(); ++layer) {
    const size_t child = state_children_[layer], n = row_floats(config_.recurrent[layer]);
    fn(child, at[child], whole, n);
    at[child] += n;
    whole += n;
  }
}

namespace {
std::vector<float> part_row(const KvCache& part) {
  return std::vector<float>(static_cast<size_t>(state_row_floats(part.config())));
}
}  // namespace

void SplitKv::read_states(int64_t row, std::span<float> out) const {
  std::vector<std::vector<float>> rows;
  for (const auto& part : parts_) part->read_states(row, rows.emplace_back(part_row(*part)));
  for_each_layer([&](size_t child, size_t at, size_t whole, size_t n) {
    std::ranges::copy(std::span(rows[child]).subspan(at, n), out.begin() + static_cast<int64_t>(whole));
  });
}

void SplitKv::write_states(int64_t row, std::span<const float> in) {
  std::vector<std::vector<float>> rows;
  for (const auto& part : parts_) rows.push_back(part_row(*part));
  for_each_layer([&](size_t child, size_t at, size_t whole, size_t n) {
    std::ranges::copy(in.subspan(whole, n), rows[child].begin() + static_cast<int64_t>(at));
  });
  for (size_t child = 0; child < parts_.size(); ++child) parts_[child]->write_states(row, rows[child]);
}

uint64_t SplitKv::page_bytes() const {
  uint64_t n_bytes = 0;
  for (const auto& part : parts_) n_bytes += part->page_bytes();
  return n_bytes;
}

void SplitKv::copy_page(int64_t from, int64_t to) {
  for (const auto& part : parts_) part->copy_page(from, to);
}

void SplitKv::read_page(int64_t page, std::span<std::byte> out) const {
  for (const auto& part : parts_) {
    part->read_page(page, out.first(part->page_bytes()));
    out = out.subspan(part->page_bytes());
  }
}

void SplitKv::write_page(int64_t page, std::span<const std::byte> in) {
  for (const auto& part : parts_) {
    part->write_page(page, in.first(part->page_bytes()));
    in = in.subspan(part->page_bytes());
  }
}

std::string SplitKv::page_layout() const {
  std::string out;
  for (size_t layer = 0, n = 0; layer < state_children_.size(); layer += n) {
    const size_t child = state_children_[layer];
    for (n = 1; layer + n < state_children_.size() && state_children_[layer + n] == child;) ++n;
    out += fmt::format("{}{} layers {}", out.empty() ? "" : ", ", n, devices_[child]);
  }
  return out;
}

Result<void> SplitKv::reserve_boundary(uint64_t n_bytes) {
  if (n_bytes > boundary_.size()) boundary_ = TRY(Buffer::allocate(n_bytes));
  return {};
}

}  // namespace tokamak::split
