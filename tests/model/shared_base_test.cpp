// One base for the processes of a host: what the memory of each is, who goes on when another ends, and what
// differs.
#include "model/layers/shared_base.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/process/address_sanitizer.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"

namespace hone::model {
namespace shared_base_test {

using namespace hone::test_tools;
using Part = SharedBase::Part;
constexpr std::chrono::seconds kPatience{20};
constexpr std::int64_t kNumbers = 300'000;  // of a tensor: 1.2 MB, no whole pages

struct Pair {
  explicit Pair(std::chrono::milliseconds patience = kPatience) {
    const int file = SharedBase::make();
    const int other = SharedBase::open(SharedBase::address_of(file));
    leader = std::make_unique<SharedBase>(file, Part::kLeads, patience);
    follower = std::make_unique<SharedBase>(other, Part::kFollows, patience);
  }
  std::unique_ptr<SharedBase> leader, follower;
};

at::Tensor numbers(float first) {
  return at::arange(kNumbers, at::kFloat) + first;
}

TEST(SharedBase, TwoHoldTheSameBytes) {
  Pair pair;
  for (const float first : {1.0F, 2.0F}) {
    const at::Tensor mine = numbers(first), yours = numbers(first);
    const void *before_mine = mine.const_data_ptr(), *before_yours = yours.const_data_ptr();
    pair.leader->share(mine);
    pair.follower->share(yours);
    EXPECT_NE(mine.const_data_ptr(), before_mine);
    EXPECT_NE(yours.const_data_ptr(), before_yours);
    EXPECT_TRUE(mine.equal(numbers(first)));
    EXPECT_TRUE(yours.equal(numbers(first)));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(yours.const_data_ptr()) % 64, 0U);
  }
  EXPECT_EQ(pair.leader->bytes(), 2 * 4 * kNumbers);
  EXPECT_EQ(pair.follower->bytes(), 2 * 4 * kNumbers);
  EXPECT_EQ(pair.leader->stopped() + pair.follower->stopped() + pair.follower->difference(), "");
}

// Tensors outlive the objects: the file is there as long as something is mapped.
TEST(SharedBase, WhatOneWritesTheOtherDoesNotSee) {
  const at::Tensor mine = numbers(0), yours = numbers(0);
  {
    Pair pair;
    pair.leader->share(mine);
    pair.follower->share(yours);
  }
  yours.add_(1);
  EXPECT_TRUE(yours.equal(numbers(1)));
  EXPECT_TRUE(mine.equal(numbers(0)));
  mine.mul_(0);
  EXPECT_TRUE(yours.equal(numbers(1)));
}

TEST(SharedBase, AStorageIsSharedOnceWithAllItsTensors) {
  const at::Tensor matrix = numbers(0).view({300, 1000});
  const ops::Weight weight(matrix), again(matrix);
  Pair pair;
  pair.leader->share(weight);
  pair.leader->share(again);
  pair.leader->share(matrix.narrow(0, 10, 5));
  EXPECT_EQ(pair.leader->bytes(), 4 * kNumbers);
  EXPECT_EQ(weight.plain().const_data_ptr(), matrix.const_data_ptr());
  EXPECT_TRUE(weight.plain().view(-1).equal(numbers(0)));
}

TEST(SharedBase, SmallTensorsStay) {
  Pair pair;
  const at::Tensor small = at::ones({100});
  const void* const before = small.const_data_ptr();
  pair.leader->share(small);
  pair.leader->share(at::Tensor());
  EXPECT_EQ(small.const_data_ptr(), before);
  EXPECT_EQ(pair.leader->bytes(), 0);
}

TEST(SharedBase, OtherNumbersAreNamedAndStay) {
  Pair pair;
  const at::Tensor mine = numbers(0), yours = numbers(0);
  yours[kNumbers - 1] = -1;
  const at::Tensor copy = yours.clone();
  pair.leader->share(mine);
  pair.follower->share(yours);
  EXPECT_TRUE(yours.equal(copy));
  EXPECT_SAYS(pair.follower->difference(), "matrix 0 of 1200000 bytes has other numbers");
  const at::Tensor next = numbers(1);
  pair.leader->share(next);
  pair.follower->share(next.clone());  // does not wait, does not share
  EXPECT_EQ(pair.follower->bytes(), 0);
}

TEST(SharedBase, AnotherSizeIsNamed) {
  Pair pair;
  pair.leader->share(numbers(0));
  pair.follower->share(at::zeros({kNumbers + 1}));
  EXPECT_SAYS(pair.follower->difference(), "matrix 0 has 1200004 bytes, not 1200000");
}

TEST(SharedBase, WithoutALeaderAProcessKeepsItsOwn) {
  Pair pair;
  const at::Tensor first = numbers(1), second = numbers(2);
  const at::Tensor leaders = first.clone();  // outlives the object
  pair.leader->share(leaders);
  pair.leader.reset();
  pair.follower->share(first);
  pair.follower->share(second);
  EXPECT_EQ(pair.follower->bytes(), 4 * kNumbers);
  EXPECT_TRUE(second.equal(numbers(2)));
  EXPECT_SAYS(pair.follower->stopped(), "shares no more");
  EXPECT_EQ(pair.follower->difference(), "");
}

TEST(SharedBase, ALeaderThatDoesNotComeIsNotWaitedForForever) {
  Pair pair(std::chrono::milliseconds(50));
  pair.follower->share(numbers(1));
  EXPECT_SAYS(pair.follower->stopped(), "did not come in time");
}

TEST(SharedBase, AFollowerWaitsForTheLeader) {
  Pair pair;
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pair.leader->share(numbers(5));
  });
  const at::Tensor yours = numbers(5);
  pair.follower->share(yours);
  late.join();
  EXPECT_EQ(pair.follower->bytes(), 4 * kNumbers);
}

// Kilobytes of a line of this process's smaps_rollup.
std::int64_t rollup(const std::string& name) {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1));
  }
  return -1;
}

// The child leads and is killed after one tensor of 64 MB; half of it then counts for each, and the child's
// end is seen at once.
TEST(SharedBase, AKilledProcessLeavesWhatItHasShared) {
  constexpr std::int64_t kLarge = 16 << 20;
  int told[2], go[2];
  ASSERT_EQ(pipe(told) + pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int file = SharedBase::make();
    const std::string address = SharedBase::address_of(file);
    SharedBase leader(file, Part::kLeads, kPatience);
    const at::Tensor large =
        at::empty({kLarge}, at::kFloat);  // filled without OpenMP, which does not outlive a fork
    std::fill_n(large.mutable_data_ptr<float>(), kLarge, 3.0F);
    leader.share(large);
    bool alive = write(told[1], address.c_str(), address.size() + 1) > 0;
    char byte = 0;
    alive = alive && read(go[0], &byte, 1) == 1;  // until the parent has it too
    kill(getpid(), SIGKILL);
    _exit(alive ? 0 : 1);
  }
  std::string address(100, '\0');
  ASSERT_GT(read(told[0], address.data(), address.size()), 0);
  SharedBase follower(SharedBase::open(address.c_str()), Part::kFollows, kPatience);
  const at::Tensor mine = at::full({kLarge}, 3.0F);
  const std::int64_t before = rollup("Pss");
  follower.share(mine);
  const std::int64_t freed = before - rollup("Pss");
  EXPECT_EQ(follower.bytes(), 4 * kLarge);
  if (before > 0 && !base::kHasAddressSanitizer) {  // which does not give freed memory away at once
    EXPECT_GT(freed, 28 << 10) << "half of 64 MB";
  }
  ASSERT_EQ(write(go[1], "x", 1), 1);
  const auto begin = std::chrono::steady_clock::now();
  follower.share(numbers(1));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
  EXPECT_SAYS(follower.stopped(), "shares no more");
  EXPECT_EQ(mine.sum().item<double>(), 3.0 * kLarge);
  waitpid(child, nullptr, 0);
  for (const int one : {told[0], told[1], go[0], go[1]}) close(one);
}

TEST(SharedBase, AnotherFileIsRefused) {
  const int file = SharedBase::make();
  const std::string address = SharedBase::address_of(file);
  std::string other = address;
  other.back() = other.back() == '1' ? '2' : '1';
  EXPECT_EQ(SharedBase::open(other), -1);
  EXPECT_EQ(SharedBase::open(""), -1);
  EXPECT_EQ(SharedBase::open("1 2"), -1);
  EXPECT_EQ(SharedBase::open(std::to_string(getpid()) + " 0 1"), -1);
  close(file);
  EXPECT_EQ(SharedBase::open(address), -1);
}

// `ulimit -f` bounds such files too: what does not fit stays where it is, on both sides.
TEST(SharedBase, NoRoom) {
  std::signal(SIGXFSZ, SIG_IGN);
  Pair pair;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 2'000'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const at::Tensor mine = numbers(2), yours = numbers(2);
  pair.leader->share(numbers(1));
  pair.leader->share(mine);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  pair.follower->share(numbers(1));
  const auto begin = std::chrono::steady_clock::now();
  pair.follower->share(yours);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
  EXPECT_SAYS(pair.leader->stopped(), "write: ");
  EXPECT_EQ(pair.follower->bytes(), 4 * kNumbers);
  EXPECT_TRUE(mine.equal(numbers(2)));
  EXPECT_TRUE(yours.equal(numbers(2)));
}

// ---- a model

base::Json large_config() {
  base::Json config = tiny_config("llama");
  config.update({{"hidden_size", 256}, {"intermediate_size", 512}, {"vocab_size", 600}});
  return config;
}

at::Tensor logits_of(const CausalLm& model) {
  const at::NoGradGuard no_grad;
  std::vector<KvCache> caches(1);
  std::vector<KvCache*> pointers = {&caches[0]};
  return model.logits(model.step({{3, 1, 4, 1, 5}}, pointers, {}));
}

struct Form {
  const char* name;
  DtypePolicy dtypes;
  Storage storage;
  Quantize quantize;
  double least;  // the share of the base that is shared
};

class SharedModel : public ::testing::TestWithParam<Form> {};

TEST_P(SharedModel, HasTheSameLogitsAndOneCopy) {
  const Form& form = GetParam();
  const TempFolder folder;
  write_model(folder.path(), large_config());
  const auto source = open_weights(folder.path());
  const CausalLm own(*source, form.dtypes, form.storage, form.quantize);
  Pair pair;
  const CausalLm first(*source, form.dtypes, form.storage, form.quantize, at::kCPU, false, pair.leader.get());
  CausalLm second(*source, form.dtypes, form.storage, form.quantize);
  second.share(*pair.follower);  // all at the end: the same order
  const std::int64_t shared = pair.leader->bytes();
  EXPECT_EQ(pair.follower->bytes(), shared) << pair.follower->stopped();
  EXPECT_GE(static_cast<double>(shared), form.least * static_cast<double>(own.parameter_bytes()));
  EXPECT_LE(shared, own.parameter_bytes() + (1 << 20));
  pair = Pair();
  const at::Tensor expected = logits_of(own);
  EXPECT_TRUE(logits_of(first).equal(expected));
  EXPECT_TRUE(logits_of(second).equal(expected));
  const auto all = own.frozen_tensors();
  for (const CausalLm* model : std::vector<const CausalLm*>{&first, &second}) {
    const auto found = model->frozen_tensors();
    ASSERT_EQ(found.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(found[i].second.equal(all[i].second));
  }
}

constexpr DtypePolicy kFloats{}, kMixed{.linear = at::kBFloat16, .residual = at::kFloat};
INSTANTIATE_TEST_SUITE_P(Forms, SharedModel,
                         ::testing::Values(Form{"fp32", kFloats, Storage::kPlain, {}, 0.99},
                                           Form{"packed", kFloats, Storage::kPacked, {}, 0.99},
                                           Form{"bf16", kMixed, Storage::kPacked, {}, 0.99},
                                           Form{"nf4", kMixed, Storage::kPacked,
                                                ops::QuantScheme{ops::QuantType::kNf4, false}, 0.5},
                                           Form{"int8", kMixed, Storage::kPlain,
                                                ops::QuantScheme{ops::QuantType::kInt8, false}, 0.9}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace shared_base_test
}  // namespace hone::model
