// Small graphs on the reference backend, for ops that are tested on numbers worked out by hand.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "backend/reference/backend.h"
#include "ir/builder.h"

namespace tokamak::reference {

// Runs a graph of weights and step inputs and returns its first output.
class Fixture {
 public:
  Fixture() : b("test") {}

  ir::ValueId values(std::string name, const Shape& shape, std::vector<float> data) {
    data_[name] = std::move(data);
    shapes_[name] = shape;
    return b.weight(name, DType::f32, shape);
  }
  // A weight's rows as an intermediate, which most ops want.
  ir::ValueId rows(std::string name, int64_t n_rows, int64_t n, std::vector<float> data) {
    const ir::ValueId table = values(name, {n_rows, n}, std::move(data));
    std::vector<int32_t> ids(static_cast<size_t>(n_rows));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
    if (tokens_.empty()) {
      tokens_ = ids;
      tokens_id_ = b.input(ir::InputRole::tokens, {n_rows});
    }
    return b.get_rows(table, tokens_id_, name + "_rows");
  }
  ir::ValueId positions(std::vector<int32_t> data) { return step_input(ir::InputRole::positions, positions_, data); }
  ir::ValueId seq_ids(std::vector<int32_t> data) { return step_input(ir::InputRole::seq_ids, seq_ids_, data); }
  ir::ValueId slots(std::vector<int32_t> data) { return step_input(ir::InputRole::slots, slots_, data); }
  // Of recurrent graphs: which state each sequence starts from, and where its new ones go.
  ir::RecurrentInputs recurrent(std::vector<int32_t> ids, std::vector<int32_t> src, std::vector<int32_t> rows,
                                int64_t n_snapshots) {
    return {.seq_ids = seq_ids(std::move(ids)),
            .state_src = step_input(ir::InputRole::state_src, state_src_, std::move(src)),
            .state_rows = step_input(ir::InputRole::state_rows, state_rows_, std::move(rows)),
            .n_snapshots = n_snapshots};
  }

  std::vector<float> run(ir::ValueId result) {
    b.output(result);
    auto graph = b.finish();
    EXPECT_TRUE(graph) << graph.error().message();
    auto backend = make_reference_backend();
    const auto lookup = [&](std::string_view name) -> Result<WeightSource> {
      const auto& data = data_.at(std::string(name));
      return WeightSource{
          .dtype = DType::f32, .shape = shapes_.at(std::string(name)), .data = std::as_bytes(std::span(data))};
    };
    auto weights = backend->load(*graph, lookup, {});
    EXPECT_TRUE(weights);
    auto kv = backend->make_kv(kv_config);
    EXPECT_TRUE(kv);
    for (const auto& [row, numbers] : states_before) (*kv)->write_states(row, numbers);
    const auto n = static_cast<size_t>(graph->values[graph->outputs[0]].shape.n_elements());
    auto program = backend->compile(std::move(*graph), **weights, **kv, {});
    EXPECT_TRUE(program) << program.error().message();
    std::vector<float> out(n);
    const std::span<float> output = out;
    const std::vector<SequencePages> sequences = {{.pages = pages}};
    const auto ran = (*program)->run({.tokens = tokens_,
                                      .positions = positions_,
                                      .seq_ids = seq_ids_,
                                      .slots = slots_,
                                      .out_rows = {},
                                      .sequences = sequences,
                                      .state_src = state_src_,
                                      .state_rows = state_rows_},
                                     {&output, 1});
    EXPECT_TRUE(ran);
    for (int64_t row = 0; row < kv_config.n_state_rows; ++row) {
      states_after.emplace_back(static_cast<size_t>(state_row_floats(kv_config)));
      (*kv)->read_states(row, states_after.back());
    }
    return out;
  }

  ir::GraphBuilder b;
  KvConfig kv_config{.layers = {{1, 2, 2}}, .n_pages = 2, .page_size = 16, .type = DType::f32};
  std::vector<int32_t> pages = {1, 0};
  std::map<int64_t, std::vector<float>> states_before;  // by row; others are zeros
  std::vector<std::vector<float>> states_after;         // by row

 private:
  ir::ValueId step_input(ir::InputRole role, std::vector<int32_t>& member, std::vector<int32_t> data) {
    member = std::move(data);
    return b.input(role, {static_cast<int64_t>(member.size())});
  }
  std::map<std::string, std::vector<float>> data_;
  std::map<std::string, Shape> shapes_;
  std::vector<int32_t> tokens_, positions_, seq_ids_, slots_, state_src_, state_rows_;
  ir::ValueId tokens_id_ = ir::kNone;
};

inline void expect_near(const std::vector<float>& got, const std::vector<double>& wanted, double bound = 1e-6) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (double{got[i]} != wanted[i]) {  // infinities are equal or wrong
      EXPECT_NEAR(got[i], wanted[i], bound) << i;
    }
}

}  // namespace tokamak::reference
