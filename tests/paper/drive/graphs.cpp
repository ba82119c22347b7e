// ops::StepGraphs with libtorch's own class for graphs: what is recorded, what is left where a recording fails, and on which card.
#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <iostream>
#include <memory>
#include <thread>

#include "base/error.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "ops/machine/cuda.h"
#include "ops/machine/graph_library.h"
#include "ops/machine/step_graphs.h"
#include "paper/drive/card.h"
#include "paper/drive/modes.h"
#include "rollout/engine.h"

namespace hone::paper {
namespace {

using ops::cuda::GraphLibrary;

constexpr std::int64_t kBatch = 4, kTokens = 12;

const GraphLibrary* real = nullptr;

// The library's, with a wait in the middle of what is recorded, which CUDA refuses.
std::string record_with_a_wait(void* graph, void (*work)(void*), void* user) {
  struct Both {
    void (*work)(void*);
    void* user;
  } both = {work, user};
  const auto call = [](void* of) {
    const Both& one = *static_cast<Both*>(of);
    one.work(one.user);
    at::ones({1}, at::TensorOptions(at::kFloat).device(at::kCUDA)).item<float>();
  };
  return real->record(graph, call, &both);
}

class WithAWait {
 public:
  WithAWait() : library_(*real) {
    library_.record = record_with_a_wait;
    ops::cuda::set_graph_library(&library_);
  }
  ~WithAWait() { ops::cuda::set_graph_library(nullptr); }
  WithAWait(const WithAWait&) = delete;
  WithAWait& operator=(const WithAWait&) = delete;

 private:
  GraphLibrary library_;
};

bool a_work_is_recorded(at::Device card) {
  ops::StepGraphs graphs(card);
  const at::Tensor x = at::zeros({100}, at::TensorOptions(at::kFloat).device(card));
  reset();
  for (int i = 0; i < 4; ++i) graphs.run({1}, [&] { x.add_(1); });
  const PaperCounts found = counts();
  return graphs.why_not().empty() && found.graph_launches == 3 && found.kernels_of_graphs == 3 &&
         found.refused_in_capture == 0;
}

// Memory of other tensors is taken and cached as ever, and the next graph is recorded.
bool memory_is_there_after_a_recording_that_fails(at::Device card) {
  const auto of_card = at::TensorOptions(at::kByte).device(card);
  std::int64_t done = 0;
  reset();
  {
    const WithAWait library;
    ops::StepGraphs graphs(card);
    for (int i = 0; i < 3; ++i) {
      graphs.run({1}, [&] {
        at::empty({1 << 20}, of_card).add(1);
        ++done;
      });
    }
    if (graphs.why_not().empty() || ops::step_graphs_note().empty() || done != 4) return false;
  }
  if (counts().refused_in_capture == 0 || counts().graph_launches != 0) return false;
  const auto large = [&] { at::empty({60 << 20}, of_card); };
  large();
  reset();
  large();
  const bool is_cached = counts().allocations == 0;
  return is_cached && a_work_is_recorded(card);
}

// Steps of an engine whose sequences have kTokens each. The counts are of its tokens.
bool decodes(const model::CausalLm& model) {
  rollout::Engine engine(model, {.batch_size = kBatch});
  rollout::RequestOptions options;
  options.max_new_tokens = kTokens;
  options.sampler.temperature = 1;
  for (std::int64_t i = 0; i < kBatch; ++i)
    engine.add({.ids = std::vector<std::int32_t>(9, static_cast<std::int32_t>(3 + i)), .options = options});
  reset();
  while (engine.advance()) {
  }
  bool all = true;
  for (rollout::RequestId id = 1; id <= kBatch; ++id)
    all = all && static_cast<std::int64_t>(engine.completion(id).ids.size()) == kTokens;
  return all;
}

std::unique_ptr<model::CausalLm> open_model(const std::string& folder, at::Device card) {
  const model::DtypePolicy dtypes = {.linear = at::kBFloat16, .residual = at::kFloat};
  return std::make_unique<model::CausalLm>(*model::open_weights(folder), dtypes, model::Storage::kPacked,
                                           model::Quantize(), card);
}

bool an_engine_goes_on_where_a_recording_fails(const std::string& folder, at::Device card) {
  const auto model = open_model(folder, card);
  {
    const WithAWait library;
    if (!decodes(*model) || counts().graph_launches != 0 || counts().refused_in_capture == 0) return false;
  }
  return decodes(*model) && counts().graph_launches > 0 && counts().refused_in_capture == 0;
}

// By a thread whose current card is the first one, and stays it.
bool an_engine_on_the_second_card_is_there(const std::string& folder) {
  bool good = false;
  std::thread([&] {
    const at::Device card = ops::open_device("cuda:1", "the test");
    const auto* const guard = c10::impl::getDeviceGuardImpl(at::kCUDA);
    guard->setDevice(at::Device(at::kCUDA, 0));
    const auto model = open_model(folder, card);
    good = decodes(*model);
    const PaperCounts found = counts();
    good = good && found.graph_launches > 0 && found.launches > found.library_calls &&
           found.on_other_cards == found.launches - found.library_calls + found.graph_launches &&
           guard->getDevice().index() == 0;
    if (!good) std::cerr << json_of(found).dump() << ' ' << found.on_other_cards << '\n';
  }).join();
  return good;
}

}  // namespace

int test_graphs(const std::vector<std::string>& words, at::Device card) {
  base::require(words.size() == 2, "paper_drive graphs", "the library of graphs and a model's folder");
  const auto entry = reinterpret_cast<ops::cuda::GraphEntry>(
      dlsym(dlopen(words[0].c_str(), RTLD_LAZY | RTLD_LOCAL), ops::cuda::kGraphEntry));
  base::require(entry != nullptr, "paper_drive graphs", "the library of graphs");
  real = entry();
  bool all = true;
  const auto check = [&](const char* name, bool good) {
    std::cout << (good ? "ok" : "not ok") << " " << name << std::endl;
    all = all && good;
  };
  check("a work is recorded", a_work_is_recorded(card));
  check("memory is there after a recording that fails", memory_is_there_after_a_recording_that_fails(card));
  check("an engine goes on where a recording fails",
        an_engine_goes_on_where_a_recording_fails(words[1], card));
  check("an engine on the second card is there", an_engine_on_the_second_card_is_there(words[1]));
  return all ? 0 : 1;
}

}  // namespace hone::paper
