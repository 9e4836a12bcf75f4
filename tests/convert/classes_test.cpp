// Every checkpoint class: the tensors of its GGUF as worked out from the class's own parameters, and the keys
// (tools/convert_classes_oracle.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "convert/convert.h"
#include "convert/folder_helpers.h"
#include "gguf/gguf.h"

namespace tokamak::test {
namespace {

namespace fs = std::filesystem;
using convert::Conversion;

const fs::path kData = fs::path(TOKAMAK_TEST_DATA) / "convert_classes";

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kData)) names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

// The oracle's formula.
uint32_t hash(std::string_view text) {
  uint32_t h = 2166136261;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 16777619;
  return h;
}
std::vector<float> numbers(const std::string& name, size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t mixed = (static_cast<uint32_t>(i) * 2654435761u ^ hash(name)) * 2246822519u;
    values[i] = static_cast<float>(mixed >> 12) / static_cast<float>(1 << 19) - 1;
  }
  return values;
}
double checksum(std::span<const float> values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i)
    sum += double{values[i]} * static_cast<double>((i + 1) * 40503 % 65536) / 65536;
  return sum;
}

fs::path folder_of(const std::string& name) {
  const Json json = Json::parse(read_file(kData / (name + ".json")));
  const fs::path folder = new_folder();
  write_file(folder / "config.json", json["config"].dump());
  RawTensors tensors;
  for (const auto& [tensor, shape] : json["tensors"].items()) {
    size_t n = 1;
    for (const Json& d : shape) n *= d.get<size_t>();
    tensors[tensor] = {"F32", shape.get<std::vector<int64_t>>(), bytes_of(numbers(tensor, n))};
  }
  write_safetensors(folder / "model.safetensors", tensors);
  return folder;
}

class Classes : public testing::TestWithParam<std::string> {};

TEST_P(Classes, KeysAndTensorsAreThoseOfTheClass) {
  auto conversion = Conversion::plan(folder_of(GetParam()), {.out_type = "f32", .no_tokenizer = true});
  ASSERT_TRUE(conversion.has_value()) << conversion.error().message();
  const fs::path out = new_folder() / "out.gguf";
  const auto written = (*conversion)->write(out);
  ASSERT_TRUE(written.has_value()) << written.error().message();
  const auto file = GgufFile::open(out);
  ASSERT_TRUE(file.has_value()) << file.error().message();

  std::vector<std::string> keys;
  for (const convert::MetadataKey& key : (*conversion)->model().keys)
    keys.push_back("key " + key.name + " " + convert::key_text(key.value));
  std::vector<std::string> golden_keys;
  size_t n_tensors = 0;
  std::istringstream golden(read_file(fs::path(TOKAMAK_GOLDEN) / "convert_classes" / (GetParam() + ".txt")));
  for (std::string line; std::getline(golden, line);) {
    if (line.starts_with("key ")) golden_keys.push_back(line);
    if (!line.starts_with("tensor ")) continue;
    ++n_tensors;
    const size_t name_end = line.find(' ', 7), sum_begin = line.rfind(' ');
    const std::string name = line.substr(7, name_end - 7);
    const GgufTensor* tensor = file->find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->shape.to_string(), line.substr(name_end + 1, sum_begin - name_end - 1)) << name;
    ASSERT_EQ(tensor->type, DType::f32);
    std::vector<float> values(static_cast<size_t>(tensor->shape.n_elements()));
    std::memcpy(values.data(), tensor->data.data(), values.size() * sizeof(float));
    const double want = std::stod(line.substr(sum_begin + 1));
    EXPECT_NEAR(checksum(values), want, 1e-6 * (std::fabs(want) + 1)) << name;
  }
  EXPECT_EQ(keys, golden_keys);
  EXPECT_EQ(file->tensors().size(), n_tensors);
}

INSTANTIATE_TEST_SUITE_P(All, Classes, testing::ValuesIn(case_names()), [](const auto& name) { return name.param; });

// All but those that add eyes to a text model: their tables are the text model's.
TEST(ClassTables, EveryClassHasACase) {
  std::set<std::string> classes;
  for (const std::string& name : case_names())
    classes.insert(Json::parse(read_file(kData / (name + ".json")))["config"]["architectures"][0].get<std::string>());
  for (const arch::CheckpointFamily& family : arch::checkpoint_families())
    if (!family.hf_class.ends_with("ForConditionalGeneration")) {
      EXPECT_THAT(classes, testing::Contains(std::string(family.hf_class)));
    }
}

}  // namespace
}  // namespace tokamak::test
