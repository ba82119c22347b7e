// When guesses pay: what a pass of so many rows takes, how often guesses are right, and how many tokens of each are read.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace hone::rollout {

// Estimates what a pass takes by its rows, from those that were made.
//
// Up to `few_rows` the kernels multiply all rows while a weight is read once, and a row more costs little. One row beyond them costs
// more at once: SmolLM2-135M takes 24 ms with 32 rows and 28 with 33 (AMX). So each number of rows has a figure of its own. Before it
// is measured, a pass with no rows is taken to cost as much as `start` rows, and one beyond `few_rows` a quarter more.
class PassCost {
 public:
  explicit PassCost(std::int64_t few_rows = 32, std::int64_t start = 32)
      : few_rows_(few_rows), start_(start) {}
  void see(std::int64_t rows, double seconds);
  bool is_known() const { return !shapes_.empty(); }
  double seconds(std::int64_t rows) const;

 private:
  struct Shape {
    double share = 1;           // of level_
    std::int64_t last_use = 0;  // the pass
  };
  double growth(std::int64_t from, std::int64_t to) const;

  std::int64_t few_rows_, start_;
  double level_ = 0;  // seconds; follows the machine and the length of the sequences
  std::int64_t passes_ = 0;
  std::map<std::int64_t, Shape> shapes_;  // by rows
};

// How often guesses were right lately.
struct Share {
  double right = 0, tried = 0;
  void see(bool is_right, double keep) {
    right = right * keep + (is_right ? 1 : 0);
    tried = tried * keep + 1;
  }
};

// Says what followed the tokens that a guess is found by, the last two times that they were seen.
enum class Followers : std::uint8_t {
  kOne,     // they were seen once
  kOthers,  // two different tokens
  kSame,    // the same token twice
};

// Guesses of longer matches are right more often: at least 1, 2, 4 and 8 tokens before the guess stood before the found text too.
// Tokens that had two different followers are seldom followed by the last of them again, so each kind has shares of its own.
constexpr std::array<std::int64_t, 4> kMatchLengths = {1, 2, 4, 8};
using Shares = std::array<Share, 3 * kMatchLengths.size()>;
std::size_t match_class(std::int64_t matched, Followers followers);
Shares first_shares();  // before anything was compared

// It holds what was measured so far, of one model, and decides speed alone.
struct DraftLearning {
  PassCost cost;
  Shares shares = first_shares();
};

// Returns how many tokens of each guess to read in a pass of `sequences` last tokens. all_right[j][i] is how probable it is that token i
// of guess j and those before it are right. The most probable tokens are read, so many that most tokens are expected a second.
std::vector<std::int64_t> lengths_that_pay(std::span<const std::vector<double>> all_right,
                                           std::int64_t sequences, std::int64_t most, const PassCost& cost);

}  // namespace hone::rollout
