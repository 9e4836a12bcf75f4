// Dummy configurations: for every family the sizes, keys and optional tensors of a small model that uses what the
// family can do. Part of the table of architectures: a new family adds a row. Weights are made by synth/. Source of the
// sizes: the published recipe behind other engines' fusion baselines (2 layers, 256 wide, 2 experts).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "arch/architectures.h"
#include "gguf/writer.h"

namespace tokamak::arch {

// Weights of the norms of queries and keys.
enum class QkNorm : uint8_t {
  none,
  head,   // one vector for every head
  rows,   // one row per head
  whole,  // over the whole projection
};

struct DummyKey {
  std::string_view suffix;  // "attention.sliding_window"
  std::variant<bool, int, double, std::string_view> value;
};

inline constexpr int kDummyVocab = 128, kDummyContext = 128;

struct DummySizes {
  int n_layer = 2, n_embd = 256, n_head = 2, n_ff = 384;
  int n_head_kv = 0;  // 0: n_head
  int n_vocab = kDummyVocab, n_ctx = kDummyContext;
  int n_expert = 2, n_expert_used = 1;
};

struct DummyRow {
  std::string_view arch;
  bool has_experts = false;
  DummySizes sizes;
  // Optional tensors that the model has: names without "blk.N.", separated by spaces.
  std::array<std::string_view, 6> tensors{};
  QkNorm qk_norm = QkNorm::none;
  int n_dense_layers = 0;  // of a model with experts: so many first layers have none
  int moe_layer_step = 1;  // and of the others only every so-manyth one does
  std::array<DummyKey, 8> keys{};

  std::string_view full_size;  // of full_size_dummies(): "llama-8b"

  std::string name() const {
    return full_size.empty() ? std::string(arch) + (has_experts ? "-moe" : "-dense") : std::string(full_size);
  }
};

std::span<const DummyRow> dummies();
// Models as large as people run, for measuring speed and memory.
std::span<const DummyRow> full_size_dummies();
// The row with or without experts. Null: there is none, or no such family.
const DummyRow* find_dummy(std::string_view arch, bool has_experts);

// All metadata of the model.
void add_metadata(GgufWriter& writer, const DummyRow& dummy);
// Does the model have this optional tensor ("blk.1.attn_q.bias")? Those of experts only in layers with experts.
bool has_tensor(const DummyRow& dummy, std::string_view name);

}  // namespace tokamak::arch
