// One graph to be checked, with all the numbers it runs on, and the builder that recipes write it with.
//
// Every constant lies in a buffer of its own between sentinels. The cache holds more pages and state rows than the case
// uses; all of them are filled first, so that what is read or written at the wrong place shows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "check/guarded.h"
#include "fuse/rules.h"
#include "ir/builder.h"

namespace tokamak::check {

// Random numbers are uniform in [low, high).
struct Range {
  double low = -1, high = 1;
};

struct CaseWeight {
  DType dtype = DType::f32;
  Shape shape;
  GuardedBytes bytes;
  uint64_t hash = 0;  // of the bytes, which no run may change
};

// Step inputs with their memory.
struct StepData {
  std::vector<int32_t> tokens, positions, seq_ids, slots, state_src, state_rows;
  std::vector<std::vector<int32_t>> pages;  // by sequence
  std::vector<SequencePages> sequences;     // views of `pages`

  StepInputs view() const;
};

struct Case {
  std::string name;
  std::optional<fuse::RuleId> rule;  // must fire in the graph
  ir::Graph graph;
  StepData step;
  KvConfig kv;
  std::map<std::string, CaseWeight, std::less<>> weights;
  std::vector<float> states;  // [n_state_rows, floats of a row], before the run
  // Of cases with keys and values: a graph that fills every slot of the cache, and one that reads the values of every
  // slot back (attention that sees its own position only). Both run on `all_slots`.
  std::optional<ir::Graph> fill, probe;
  StepData all_slots;

  WeightLookup lookup() const;
  // What is wrong with the constants after a run: a sentinel or a weight has changed. Empty: nothing.
  std::string damage() const;
};

// Where an operand comes from.
enum class Layout : uint8_t {
  whole,  // rows follow each other
  slice,  // every row is a part of a wider one: strided, and not aligned
};

// New tokens of one sequence after n_past earlier ones.
struct Sequence {
  int64_t n_tokens = 1, n_past = 0;
};

class CaseBuilder {
 public:
  // Same name and seed, same case. `sequences` must not be empty.
  CaseBuilder(std::string name, uint64_t seed, std::vector<Sequence> sequences);

  ir::GraphBuilder b;
  const int64_t n_tokens, n_seqs;
  std::optional<fuse::RuleId> rule;
  int64_t page_size = 16;
  DType cache_type = DType::f16;
  bool states_in_place = false;  // of one snapshot: a state is written where it was read

  // Constants. Floats are drawn from `range`; blocks of quantized types from encoded numbers in [-1, 1).
  ir::ValueId weight(DType dtype, const Shape& shape, Range range = {});
  ir::ValueId constant(const Shape& shape, std::span<const float> values);  // F32
  // An activation f32 [n_tokens, rest...] made by GET_ROWS.
  ir::ValueId tensor(std::initializer_list<int64_t> rest, Range range = {}, Layout layout = Layout::whole);
  // The same, rows given: `values` is [n_tokens, width].
  ir::ValueId rows(int64_t width, std::span<const float> values);

  ir::ValueId positions() { return b.input(ir::InputRole::positions, {n_tokens}); }
  ir::ValueId seq_ids() { return b.input(ir::InputRole::seq_ids, {n_tokens}); }
  ir::ValueId slots() { return b.input(ir::InputRole::slots, {n_tokens}); }
  // Keys and values of a new layer.
  struct Cache {
    ir::ValueId k, v;
  };
  Cache cache(int64_t n_head_kv, int64_t dk, int64_t dv);
  // A recurrent state of a new layer, and the inputs of the ops that use it.
  ir::ValueId state(ir::StateRole role, int64_t row_elems, int64_t n_snapshots);
  ir::RecurrentInputs recurrent(int64_t n_snapshots);

  // A number in [0, 1), another with each call.
  double random();
  // Errors: those of the graph builder.
  Result<Case> finish();

 private:
  int64_t n_slots() const { return n_pages() * page_size; }
  int64_t n_pages() const;
  int64_t n_state_rows() const;
  void fill_bytes(CaseWeight& weight, Range range);
  ir::ValueId add_weight(CaseWeight weight);
  void make_step();
  Result<void> make_cache_graphs();

  Case case_;
  uint64_t seed_;
  uint64_t n_drawn_ = 0;
  std::vector<Sequence> sequences_;
  std::vector<int32_t> token_ids_;
  int64_t n_snapshots_ = 1;
  int32_t n_layers_ = 0;
};

// A case before it is built.
struct Recipe {
  std::string subject;  // name of an op, or a fusion label
  std::string variant;  // "n=7 type=Q8_0"
  std::function<void(CaseBuilder&)> build;
  std::vector<Sequence> sequences = {{}};
  std::optional<fuse::RuleId> rule = {};
  std::optional<DType> dtype = {};  // the weight or cache type that the case is about

  std::string name() const { return subject + " " + variant; }
};
Result<Case> make_case(const Recipe& recipe, uint64_t seed);

}  // namespace tokamak::check
