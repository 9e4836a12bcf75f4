#include "quantize/imatrix_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "quantize/model_helpers.h"

namespace tokamak {
namespace {
using test::scratch;
using testing::ElementsAre;
using testing::HasSubstr;

ImatrixFile small_imatrix() {
  ImatrixFile imatrix;
  imatrix.entries = {{.name = "b.weight", .row_elems = 3, .sums = {2, 4, 6}, .counts = {2}},
                     {.name = "a.weight", .row_elems = 2, .sums = {3, 6, 0, 0}, .counts = {3, 0}}};
  imatrix.datasets = {"wiki.txt", "more.txt"};
  imatrix.n_chunks = 7;
  imatrix.chunk_size = 512;
  return imatrix;
}

std::string dat_bytes(int32_t n_calls, std::vector<float> values, bool has_tail = true) {
  std::string out;
  const auto number = [&out](int32_t n) { out.append(reinterpret_cast<const char*>(&n), 4); };
  number(1);
  number(8);
  out += "a.weight";
  number(n_calls);
  number(static_cast<int32_t>(values.size()));
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  if (!has_tail) return out;
  number(9);
  number(8);
  return out + "wiki.txt";
}

std::filesystem::path write_bytes(const std::string& name, const std::string& bytes) {
  const auto path = scratch() / name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(Imatrix, WhatIsWrittenIsRead) {
  const auto path = scratch() / "i.gguf";
  ASSERT_TRUE(write_imatrix(small_imatrix(), path));
  const auto read = read_imatrix(path);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->path, path.string());
  EXPECT_THAT(read->datasets, ElementsAre("wiki.txt", "more.txt"));
  EXPECT_EQ(read->n_chunks, 7u);
  EXPECT_EQ(read->chunk_size, 512u);
  EXPECT_FALSE(read->counts_chunks);
  ASSERT_EQ(read->entries.size(), 2u);
  EXPECT_EQ(read->entries[0].name, "a.weight");
  EXPECT_THAT(read->find("a.weight")->sums, ElementsAre(3, 6, 0, 0));
  EXPECT_THAT(read->find("a.weight")->counts, ElementsAre(3, 0));
  EXPECT_EQ(read->find("b.weight")->row_elems, 3);
  EXPECT_EQ(read->find("c.weight"), nullptr);
}

TEST(Imatrix, MeansAreSumsOverCountsAndOnesWithoutAny) {
  ImatrixFile imatrix = small_imatrix();
  ASSERT_TRUE(imatrix.finish());
  EXPECT_THAT(*imatrix_means(imatrix, *imatrix.find("a.weight"), 2, 2), ElementsAre(1, 2, 1, 1));
  EXPECT_THAT(*imatrix_means(imatrix, *imatrix.find("b.weight"), 1, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(*imatrix_means(imatrix, *imatrix.find("b.weight"), 2, 3), ElementsAre(1, 2, 3, 1, 2, 3));
  const auto wrong = imatrix_means(imatrix, *imatrix.find("b.weight"), 1, 4);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message(), HasSubstr("3 values for tensor b.weight, which needs 1 x 4"));
}

TEST(Imatrix, ReadsTheOlderFormWithAndWithoutItsTail) {
  for (bool has_tail : {true, false}) {
    const auto read = read_imatrix(write_bytes("old.dat", dat_bytes(4, {4, 8}, has_tail)));
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_THAT(*imatrix_means(*read, *read->find("a.weight"), 1, 2), ElementsAre(1, 2));
    EXPECT_EQ(read->n_chunks, has_tail ? 9u : 0u);
    EXPECT_EQ(read->datasets.size(), has_tail ? 1u : 0u);
    EXPECT_TRUE(read->counts_chunks);
  }
}

TEST(Imatrix, RefusesEveryTruncationOfTheOlderForm) {
  const std::string whole = dat_bytes(4, {4, 8});
  const size_t without_tail = whole.size() - 16;
  for (size_t n = 0; n < whole.size(); ++n) {
    if (n == without_tail || n == without_tail + 4) continue;  // a whole older form
    EXPECT_FALSE(read_imatrix(write_bytes("cut.dat", whole.substr(0, n)))) << n;
  }
  std::string huge = whole;
  const int32_t n_values = 0x7fffffff;
  std::memcpy(huge.data() + 20, &n_values, 4);
  const auto read = read_imatrix(write_bytes("huge.dat", huge));
  EXPECT_THAT(read.error().message(), HasSubstr("the file ends inside the values"));
}

TEST(Imatrix, RefusesValuesThatAreNoImportance) {
  for (float bad : {-1.0f, NAN, INFINITY}) {
    const auto read = read_imatrix(write_bytes("bad.dat", dat_bytes(1, {1, bad})));
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code, ErrorCode::bad_file);
    EXPECT_THAT(read.error().message(), HasSubstr("a.weight: the sum of column 1 is"));
  }
  ImatrixFile twice = small_imatrix();
  twice.entries[1].name = "b.weight";
  twice.entries[1].counts = {1};
  twice.entries[1].row_elems = 4;
  EXPECT_THAT(twice.finish().error().message(), HasSubstr("b.weight appears twice"));
}

TEST(Imatrix, RefusesOtherGgufFiles) {
  const auto model = read_imatrix(test::write_model("no_imatrix.gguf"));
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message(), HasSubstr("is no importance matrix"));

  GgufWriter writer;
  writer.add("general.type", "imatrix");
  const std::vector<float> sums = {1, 2};
  writer.add_tensor("a.weight.in_sum2", DType::f32, Shape{1, 2}, std::as_bytes(std::span(sums)));
  ASSERT_TRUE(writer.write(scratch() / "uncounted.gguf"));
  EXPECT_THAT(read_imatrix(scratch() / "uncounted.gguf").error().message(),
              HasSubstr("a.weight.in_sum2 has no a.weight.counts"));
  EXPECT_EQ(read_imatrix(scratch() / "nowhere").error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace tokamak
