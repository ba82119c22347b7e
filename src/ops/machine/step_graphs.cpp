#include "ops/machine/step_graphs.h"

#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "ops/machine/graph_library.h"

namespace hone::ops {
namespace {

using cuda::GraphLibrary;

struct LoadedGraphs {
  const GraphLibrary* table = nullptr;
  std::string why_not;
};

// Beside the library or program that holds this function.
LoadedGraphs load_graphs() {
  Dl_info found{};
  std::string path = "libhone_graphs.so";
  if (dladdr(reinterpret_cast<const void*>(&load_graphs), &found) != 0 && found.dli_fname != nullptr) {
    const std::string file = found.dli_fname;
    path = file.substr(0, file.rfind('/') + 1) + path;
  }
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const said = dlerror();
    return {.why_not = said == nullptr ? path + " is not there" : said};
  }
  const auto entry = reinterpret_cast<cuda::GraphEntry>(dlsym(library, cuda::kGraphEntry));
  const GraphLibrary* const table = entry == nullptr ? nullptr : entry();
  if (table == nullptr || table->version != cuda::kGraphVersion)
    return {.why_not = path + " is of another version of hone"};
  return {.table = table};
}

const LoadedGraphs& graph_library() {
  static const LoadedGraphs loaded = load_graphs();
  return loaded;
}

}  // namespace

std::string cuda::graph_library_missing() {
  return graph_library().why_not;
}

class StepGraphs::Graph {
 public:
  Graph() : graph_(graph_library().table->make()) {}
  ~Graph() { graph_library().table->drop(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string record(std::function<void()>& work) {
    const auto call = [](void* user) { (*static_cast<std::function<void()>*>(user))(); };
    return graph_library().table->record(graph_, call, &work);
  }
  void start() const { graph_library().table->start(graph_); }

 private:
  void* const graph_;
};

StepGraphs::StepGraphs(at::Device device, std::size_t most) : device_(device), most_(most) {
  if (device.is_cuda()) why_not_ = graph_library().why_not;
}

StepGraphs::~StepGraphs() = default;

void StepGraphs::clear() {
  kept_.clear();
}

void StepGraphs::record(Kept& one) {
  auto graph = std::make_unique<Graph>();
  try {
    why_not_ = graph->record(one.work);
  } catch (const std::exception& error) {
    // It may be that only the recording forbids it. The work is done next, and throws again what is wrong with it.
    why_not_ = *error.what() != 0 ? error.what() : "the step cannot be recorded";
  }
  if (!why_not_.empty()) return;
  one.graph = std::move(graph);
  ++recorded_;
}

void StepGraphs::run(const std::vector<std::int64_t>& form, const std::function<void()>& work) {
  if (!why_not_.empty()) return work();
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.form == form; });
  if (found == kept_.end()) {
    work();
    kept_.push_front({.form = form, .work = work, .graph = nullptr});
    if (kept_.size() > most_) kept_.pop_back();
    return;
  }
  kept_.splice(kept_.begin(), kept_, found);
  Kept& one = kept_.front();
  if (!device_.is_cuda()) {
    ++started_;
    return one.work();
  }
  const c10::DeviceGuard guard(device_);  // a thread has its own current card
  if (one.graph == nullptr) record(one);
  if (one.graph == nullptr) return work();
  one.graph->start();
  ++started_;
}

}  // namespace hone::ops
