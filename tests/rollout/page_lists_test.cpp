// The lists of a sampler's steps that are kept from one to the next: whatever happens to the sequences, each row reads its own tokens, in
// the parts in which lists that are made again have them.
#include "ops/sampling/page_lists.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

namespace hone::ops {
namespace page_lists_test {

constexpr std::int64_t kGroup = 2, kDim = 8;

std::shared_ptr<KeyPages> pages_of_one_layer() {
  const KeyShape shape = {.heads = 4, .kv_heads = 2, .head_dim = kDim};
  return std::make_shared<KeyPages>(std::vector<std::optional<KeyShape>>{shape, std::nullopt}, at::kCPU);
}

template <typename T>
std::vector<T> structures_of(const at::Tensor& list) {
  std::vector<T> out(list.nbytes() / sizeof(T));
  std::memcpy(static_cast<void*>(out.data()), list.contiguous().const_data_ptr(), out.size() * sizeof(T));
  return out;
}

// Of a row: where each of its results begins among its tokens, and the slots of all tokens.
struct Read {
  std::vector<std::int64_t> begins, slots;
  bool operator==(const Read&) const = default;
};

std::vector<Read> reads_of(const SentParts& sent, std::size_t rows) {
  const auto parts = structures_of<PagePart>(sent.parts);
  const auto part_rows = structures_of<PartRow>(sent.rows);
  const auto pages = structures_of<std::int32_t>(sent.pages),
             results_of = structures_of<std::int32_t>(sent.results_of);
  EXPECT_EQ(std::ssize(parts), sent.wide + sent.narrow);
  EXPECT_EQ(results_of.size(), rows + 1);
  EXPECT_LE(results_of.back(), sent.results);
  std::map<std::int32_t, const PagePart*> part_of;  // by result
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const PagePart& part = parts[p];
    if (part.rows > 0) {
      EXPECT_EQ(part.rows * kGroup > kNarrowPart, static_cast<std::int64_t>(p) < sent.wide);
    }
    for (std::int32_t i = 0; i < part.rows; ++i) {
      const auto place = static_cast<std::size_t>(part.first_row) + static_cast<std::size_t>(i);
      const PartRow& row = part_rows.at(place);
      EXPECT_GE(row.result, results_of.at(static_cast<std::size_t>(row.query)));
      EXPECT_LT(row.result, results_of.at(static_cast<std::size_t>(row.query) + 1));
      EXPECT_TRUE(part_of.emplace(row.result, &part).second);
    }
  }
  std::vector<Read> out(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::int32_t result = results_of[i]; result < results_of[i + 1]; ++result) {
      out[i].begins.push_back(std::ssize(out[i].slots));
      const PagePart& part = *part_of.at(result);
      for (std::int32_t token = 0; token < part.tokens; ++token)
        out[i].slots.push_back(pages.at(static_cast<std::size_t>(part.first_page + token / kPageTokens)) *
                                   kPageTokens +
                               token % kPageTokens);
    }
  }
  return out;
}

struct Sequence {
  std::shared_ptr<PageRun> before, own;  // before: or null
  std::int64_t length = 0;               // of both
};

std::vector<PageRows> rows_of(const std::vector<Sequence*>& batch) {
  std::vector<PageRows> out;
  for (const Sequence* const one : batch) {
    PageRows row = {.begin = std::ssize(out), .end = std::ssize(out) + 1};
    if (one != nullptr) {
      row.position = one->length - 1;
      row.own = one->own.get();
      if (one->before) row.before.push_back(one->before.get());
    }
    out.push_back(row);
  }
  return out;
}

void expect_own_tokens(const std::vector<Sequence*>& batch, const PageRun& nobody, const PageLists& kept) {
  const std::vector<PageRows> rows = rows_of(batch);
  PageLists again({{kGroup, kDim}}, at::kCPU);
  again.set(rows, &nobody);
  const std::vector<Read> found = reads_of(kept.parts(kGroup, kDim), rows.size()),
                          expected = reads_of(again.parts(kGroup, kDim), rows.size());
  ASSERT_EQ(found, expected);
  for (const at::Tensor& of : {kept.positions() - again.positions(), kept.slots().page - again.slots().page,
                               kept.slots().place - again.slots().place})
    ASSERT_EQ(of.abs().sum().item<double>(), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::int64_t> slots;
    const auto add = [&](const PageRun& run) {
      for (std::int64_t token = 0; token < run.length(); ++token) slots.push_back(run.tokens().slot(token));
    };
    for (const PageRun* const one : rows[i].before) add(*one);
    add(rows[i].own == nullptr ? nobody : *rows[i].own);
    ASSERT_EQ(found[i].slots, slots) << "row " << i;
    const auto row = static_cast<std::int64_t>(i);
    ASSERT_EQ(kept.slots().page[row].item<std::int64_t>() * kPageTokens +
                  kept.slots().place[row].item<std::int64_t>(),
              slots.back());
    ASSERT_EQ(kept.positions()[row].item<float>(), static_cast<float>(rows[i].position));
  }
}

TEST(PageLists, RowsReadTheirOwnTokensWhateverComesAndGoes) {
  std::mt19937 random(11);  // NOLINT(bugprone-random-generator-seed): the same each time
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const auto pages = pages_of_one_layer();
  const std::shared_ptr<PageRun> nobody = pages->take();
  pages->extend(*nobody, 1);
  PageLists kept({{kGroup, kDim}}, at::kCPU);
  std::deque<Sequence> all;
  std::vector<Sequence*> batch(9, nullptr);
  const auto grow = [&](Sequence& one, std::int64_t count) {
    pages->extend(*one.own, one.own->length() + count);
    one.length += count;
  };
  std::vector<std::int64_t> form;
  std::int64_t steps = 0, same = 0;
  for (int turn = 0; turn < 400; ++turn) {
    Sequence*& place = batch[below(batch.size())];
    const std::size_t what = below(40);
    if (what < 2 || turn < 9) {  // a new one, some with a prompt of another's
      Sequence one = {.own = pages->take()};
      const Sequence* const other = batch[below(batch.size())];
      if (other != nullptr && below(2) == 0) {
        one.before = other->before ? other->before : other->own;
        one.length = one.before->length();
        // What goes on is no prompt.
        if (one.before == other->own) one.before = one.before->fork();
      }
      all.push_back(std::move(one));
      place = &all.back();
      grow(*place, static_cast<std::int64_t>(below(700)));
    } else if (what == 2) {
      place = nullptr;
    } else if (what == 3 && place != nullptr && place->own->length() > 1) {
      const auto length = static_cast<std::int64_t>(below(static_cast<std::size_t>(place->own->length())));
      place->length -= place->own->length() - length;
      place->own->truncate(length);
    } else if (what == 4 && place != nullptr) {
      all.push_back({.before = place->before, .own = place->own->fork(), .length = place->length});
      batch[below(batch.size())] = &all.back();
    } else if (what == 5) {
      batch.resize(4 + below(8), nullptr);
    }
    for (Sequence* const one : batch)
      if (one != nullptr && std::count(batch.begin(), batch.end(), one) == 1) grow(*one, 1);
    for (Sequence*& one : batch)
      if (one != nullptr && std::count(batch.begin(), batch.end(), one) > 1) one = nullptr;
    kept.set(rows_of(batch), nobody.get());
    expect_own_tokens(batch, *nobody, kept);
    if (HasFatalFailure()) FAIL() << "turn " << turn;
    std::vector<std::int64_t> now;
    kept.put_form(now);
    steps += 1;
    same += now == form ? 1 : 0;
    form = now;
  }
  EXPECT_GT(same, steps / 2) << "most steps have the form of the one before";
  all.clear();
  EXPECT_EQ(pages->booked() / kPageTokens - pages->unused(), 1) << "nobody's page";
}

TEST(PageLists, AStepWithoutANewPartChangesNumbersAndNoPlace) {
  const auto pages = pages_of_one_layer();
  std::vector<Sequence> all(3);
  std::vector<Sequence*> batch;
  for (Sequence& one : all) {
    one.own = pages->take();
    batch.push_back(&one);
  }
  PageLists kept({{kGroup, kDim}}, at::kCPU);
  std::vector<std::int64_t> first;
  const void* place = nullptr;
  for (int token = 0; token < 512; ++token) {
    for (Sequence& one : all) pages->extend(*one.own, ++one.length);
    kept.set(rows_of(batch), nullptr);
    std::vector<std::int64_t> form;
    kept.put_form(form);
    if (token == 0) {
      first = form;
      place = kept.positions().const_data_ptr();
    }
    ASSERT_EQ(form, first) << token;
    ASSERT_EQ(kept.positions().const_data_ptr(), place) << token;
  }
  EXPECT_EQ(kept.parts(kGroup, kDim).results_of[3].item<std::int32_t>(), 3);
  for (Sequence& one : all) pages->extend(*one.own, ++one.length);
  kept.set(rows_of(batch), nullptr);
  EXPECT_EQ(kept.parts(kGroup, kDim).results_of[3].item<std::int32_t>(), 6) << "the second part of each";
}

}  // namespace page_lists_test
}  // namespace hone::ops
