// The infill sampler on distributions small enough to do by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sampling_helpers.h"

namespace tokamak {
namespace {

using namespace testing_sampling;

struct Piece {
  std::string text;  // empty: an end of generation
  double prob;
};

Sampler infill_sampler(const std::vector<Piece>& pieces, SamplerParams params = bare("i")) {
  SamplerVocab vocab{.n_vocab = pieces.size(), .end_of_generation = {}, .text = [pieces](int32_t id) {
                       return pieces[static_cast<size_t>(id)].text;
                     }};
  for (size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].text.empty()) vocab.end_of_generation.push_back(static_cast<int32_t>(i));
  return Sampler::create(std::move(params), std::move(vocab)).value();
}
std::map<int32_t, double> filled(const std::vector<Piece>& pieces, SamplerParams params = bare("i")) {
  Sampler sampler = infill_sampler(pieces, std::move(params));
  std::vector<double> probs;
  for (const Piece& piece : pieces) probs.push_back(piece.prob);
  return distribution(sampler, logits_of(probs));
}

TEST(Infill, EndsWhenTheEndTimesTheChoicesOutweighsTheText) {
  // 4 candidates: 0.22 * 4 > 0.78.
  expect_distribution(filled({{"", 0.22}, {"a", 0.4}, {"b", 0.3}, {"c", 0.08}}), {{0, 1.0}});
  // Two ends share what they have.
  expect_distribution(filled({{"", 0.2}, {"", 0.1}, {"a", 0.7}}), {{0, 2.0 / 3}, {1, 1.0 / 3}});
  // 3 candidates: 0.2 * 3 < 0.8. Both texts have 0.4 of 1, more than 1/3; the end stays.
  expect_distribution(filled({{"", 0.2}, {"a", 0.4}, {"b", 0.4}}), {{0, 0.2}, {1, 0.4}, {2, 0.4}});
}

TEST(Infill, TextsThatBeginAlikeAreOneChoice) {
  // "hel" takes 0.5 + 0.15 + 0.1; "x" has 0.25 of 1, less than 1/3.
  expect_distribution(filled({{"x", 0.25}, {"hell", 0.15}, {"hel", 0.5}, {"hello", 0.1}}), {{2, 1.0}});
  // The more probable keeps both, though it is the longer: 0.4 + 0.2 against 0.4.
  expect_distribution(filled({{"he", 0.2}, {"hel", 0.4}, {"x", 0.4}}), {{1, 0.6}, {2, 0.4}});
  // Equals: the lowest id.
  expect_distribution(filled({{"ab", 0.3}, {"a", 0.3}, {"x", 0.4}}), {{0, 0.6}, {2, 0.4}});
  // Neither begins with the other.
  expect_distribution(filled({{"ab", 0.5}, {"ac", 0.5}}), {{0, 0.5}, {1, 0.5}});
}

TEST(Infill, ImprobableTextsGo) {
  // 0.19 goes; 0.45 and 0.36 of 0.81 stay, both above 1/3.
  expect_distribution(filled({{"a", 0.45}, {"b", 0.36}, {"c", 0.19}}), {{0, 0.45 / 0.81}, {1, 0.36 / 0.81}});
  // Three are left, so that 1/4 is asked for: 0.24 goes.
  expect_distribution(filled({{"a", 0.44}, {"b", 0.32}, {"c", 0.24}}), {{0, 0.44 / 0.76}, {1, 0.32 / 0.76}});
}

TEST(Infill, WithNothingProbableItEnds) {
  const std::vector<Piece> flat = {{"a", 0.17}, {"b", 0.17}, {"c", 0.16}, {"d", 0.16},
                                   {"e", 0.16}, {"f", 0.16}, {"", 0.02}};
  expect_distribution(filled(flat), {{6, 1.0}});
  SamplerParams params = bare("ki");
  params.top_k = 6;  // removes the end, which comes back
  expect_distribution(filled(flat, params), {{6, 1.0}});
  params.ignore_eos = true;  // where it is forbidden, the best text stays
  expect_distribution(filled(flat, params), {{0, 1.0}});
}

TEST(Infill, GreedyTakesTheBestOfWhatItLeaves) {
  SamplerParams params = bare("ki");
  params.temperature = 0;
  params.top_k = 4;
  // "x" is best alone, "he" with "hel". The filters run, or the end would win: 0.16 * 6 > 0.84.
  const std::vector<Piece> pieces = {{"x", 0.3}, {"he", 0.22}, {"hel", 0.16}, {"", 0.16}, {"y", 0.08}, {"z", 0.08}};
  expect_distribution(filled(pieces, params), {{1, 1.0}});
}

TEST(Infill, ALargeVocabularyIsNotComparedInPairs) {
  std::vector<Piece> pieces = {{"", 1e-9}};
  for (int i = 0; i < 20000; ++i) pieces.push_back({"t" + std::to_string(i), 1.0 / 20000});
  EXPECT_EQ(filled(pieces).size(), 1u);
}

}  // namespace
}  // namespace tokamak
