// Our plan against what llama-quantize --dry-run answered (tools/quantize_oracle.py).
#include "quantize/mix.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "quantize/plan.h"

namespace tokamak {
namespace {

struct RecordedModel {
  std::string name;
  MixModel model;
  std::vector<GgufTensor> tensors;
};

std::vector<int64_t> parse_layers(const std::string& text) {
  std::vector<int64_t> layers;
  int64_t first = 0, last = 0, step = 1;
  if (std::sscanf(text.c_str(), "%ld-%ld/%ld", &first, &last, &step) == 3) {
    for (int64_t layer = first; layer <= last; layer += step) layers.push_back(layer);
    return layers;
  }
  std::stringstream numbers(text);
  for (std::string number; std::getline(numbers, number, ',');) layers.push_back(std::stoll(number));
  return layers;
}

std::string layer_name(const std::string& pattern, int64_t layer) {
  const size_t star = pattern.find('*');
  return star == std::string::npos ? pattern
                                   : pattern.substr(0, star) + std::to_string(layer) + pattern.substr(star + 1);
}

void add_tensors(RecordedModel& recorded, std::stringstream& line) {
  std::string pattern, layers;
  line >> pattern >> layers;
  std::vector<int64_t> dims;
  for (int64_t dim = 0; line >> dim;) dims.insert(dims.begin(), dim);
  GgufTensor tensor{.type = dims.size() == 1 ? DType::f32 : DType::f16};
  for (int64_t dim : dims) tensor.shape.push_inner(dim);
  for (int64_t layer : layers == "-" ? std::vector<int64_t>{0} : parse_layers(layers)) {
    tensor.name = layer_name(pattern, layer);
    recorded.tensors.push_back(tensor);
  }
}

void add_key(MixModel& model, std::stringstream& line) {
  std::string key;
  int64_t value = 0;
  line >> key >> value;
  if (key == "block_count") model.n_layer = value;
  if (key == "attention.head_count") model.n_head = value;
  if (key == "attention.head_count_kv") model.n_head_kv = value;
  if (key == "expert_count") model.n_expert = value;
}

// By name of the whole tensor.
using Types = std::map<std::string, std::string>;

// What the recording says, with the runs of "type NAME A*3 B" spread over the layers that have the tensor.
void add_types(const RecordedModel& recorded, std::stringstream& line, Types& types) {
  std::string pattern;
  line >> pattern;
  std::vector<std::pair<int64_t, std::string>> names;
  for (const GgufTensor& tensor : recorded.tensors) {
    const int64_t layer = layer_of(tensor.name).value_or(0);
    if (layer_name(pattern, layer) == tensor.name) names.emplace_back(layer, tensor.name);
  }
  std::sort(names.begin(), names.end());
  size_t next = 0;
  for (std::string run; line >> run;) {
    const size_t star = run.find('*');
    const int n = star == std::string::npos ? 1 : std::stoi(run.substr(star + 1));
    for (int i = 0; i < n; ++i) types[names.at(next++).second] = run.substr(0, star);
  }
  EXPECT_EQ(next, names.size()) << pattern;
}

// The imatrix has an entry for every tensor.
ImatrixFile imatrix_for(const RecordedModel& recorded) {
  ImatrixFile imatrix;
  for (const GgufTensor& tensor : recorded.tensors)
    imatrix.entries.push_back({.name = tensor.name, .row_elems = 1, .sums = {1}, .counts = {1}});
  EXPECT_TRUE(imatrix.finish());
  return imatrix;
}

struct Recording {
  RecordedModel model;
  std::string file_type, imatrix;
  bool is_refused = false;
  Types types;
};

std::vector<Recording> read_recordings() {
  std::ifstream file(TOKAMAK_GOLDEN "/quantize/mixes.txt");
  std::vector<Recording> out;
  RecordedModel model;
  for (std::string text; std::getline(file, text);) {
    std::stringstream line(text);
    std::string word;
    line >> word;
    if (word == "model") {
      model = {};
      std::string arch;
      line >> model.name >> arch;
      model.model.is_falcon = arch == "falcon";
    } else if (word == "key") {
      add_key(model.model, line);
    } else if (word == "tensor") {
      add_tensors(model, line);
    } else if (word == "plan") {
      out.push_back({.model = model});
      line >> out.back().file_type >> out.back().imatrix;
    } else if (word == "refused") {
      out.back().is_refused = true;
    } else if (word == "type") {
      add_types(model, line, out.back().types);
    }
  }
  return out;
}

// Errors: those of make_plan and check_plan.
Result<Types> planned_types(const Recording& recording, bool has_imatrix) {
  const ImatrixFile imatrix = imatrix_for(recording.model);
  QuantizeOptions options{.file_type = (*find_file_type(recording.file_type))->id};
  if (has_imatrix) options.imatrix = &imatrix;
  const Plan plan = TRY(make_plan(recording.model.tensors, recording.model.model, options));
  if (recording.is_refused) TRY(check_plan(recording.model.tensors, plan, options));
  Types types;
  for (const PlannedTensor& planned : plan.tensors) types[planned.name] = std::string(dtype_name(planned.type));
  return types;
}

TEST(Mix, GivesEveryTensorTheTypeThatLlamaQuantizeGivesIt) {
  const std::vector<Recording> recordings = read_recordings();
  ASSERT_GT(recordings.size(), 900u);
  for (const Recording& recording : recordings) {
    for (const bool has_imatrix : {false, true}) {
      if (recording.imatrix == (has_imatrix ? "none" : "imatrix")) continue;
      const std::string where = recording.model.name + " " + recording.file_type + (has_imatrix ? " imatrix" : "");
      const auto types = planned_types(recording, has_imatrix);
      ASSERT_EQ(types.has_value(), !recording.is_refused) << where;
      if (!types) continue;
      ASSERT_EQ(types->size(), recording.types.size()) << where;
      for (const auto& [name, type] : recording.types) EXPECT_EQ(types->at(name), type) << where << " " << name;
    }
  }
}

}  // namespace
}  // namespace tokamak
